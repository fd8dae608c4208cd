"""Vendors that violate HTTP, as bytes: the client gets a whole reply, a clean 502 or an interrupted reply."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from agentctx.llm.proxy.app import Proxy
from agentctx.llm.proxy.upstream import Upstreams
from agentctx.server.request_context import RequestContext
from tests.server.running import Running, running

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
AB_IN_CHUNKS = b"\r\n2\r\nab\r\n0\r\n\r\n"


class RawVendor:
    """Answers each request with the next of its replies, repeating the last one.

    It closes the connection after each unless `stays`.
    """

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.stays = False
        self.url = ""
        self.connections = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
                await writer.drain()
                if not self.stays:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vendor() -> AsyncIterator[RawVendor]:
    vendor = RawVendor()
    server = await asyncio.start_server(vendor.answer, "127.0.0.1", 0)
    vendor.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield vendor
    server.close()


@asynccontextmanager
async def proxied(vendor: RawVendor) -> AsyncIterator[Running]:
    urls = dict.fromkeys(("openai", "anthropic", "gemini", "ollama"), vendor.url)
    upstreams = Upstreams(urls=urls, connect_timeout_s=5, read_timeout_s=5)
    app = RequestContext(Proxy(upstreams, None))
    async with running(asgi=app) as daemon:
        yield daemon
    await upstreams.aclose()


@dataclass
class Got:
    """What the client saw, and what was logged. Without a status, the reply was interrupted."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    logged: list[str] = field(default_factory=list)


async def get(vendor: RawVendor, reply: bytes, *, method: str = "GET", name: str = "openai") -> Got:
    vendor.replies, vendor.stays, got = [reply], False, Got()
    with capture_logs() as logs:
        async with proxied(vendor) as daemon:
            with contextlib.suppress(httpx.RemoteProtocolError):
                passed = await daemon.http.request(method, f"/proxy/{name}/v1/models")
                got = Got(passed.status_code, dict(passed.headers), passed.content)
    got.logged = [entry["event"] for entry in logs]
    return got


TWO = b"Content-Length: 2\r\n"
WHOLE = OK + TWO + b"\r\nab"

PASSED = {
    "a length": (WHOLE, 200, b"ab"),
    "a body up to the end of the connection": (OK + b"\r\nab", 200, b"ab"),
    "HTTP/1.0": (WHOLE.replace(b"/1.1", b"/1.0"), 200, b"ab"),
    "two equal lengths": (OK + TWO + TWO + b"\r\nab", 200, b"ab"),
    "two equal lengths in a line": (OK + b"Content-Length: 2, 2\r\n\r\nab", 200, b"ab"),
    "a length before chunks": (OK + b"Content-Length: 5\r\n" + CHUNKED + AB_IN_CHUNKS, 200, b"ab"),
    "a length after chunks": (OK + CHUNKED + b"Content-Length: 1\r\n" + AB_IN_CHUNKS, 200, b"ab"),
    "204 with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b""),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "early hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + WHOLE, 200, b"ab"),
    "100": (b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, 200, b"ab"),
    "205 with a body": (WHOLE.replace(b"200 OK", b"205 Reset"), 205, b"ab"),
}
TOO_MUCH = {
    "more than the length": (WHOLE + b"cdef", 200, b"ab"),
    "204 with a body": (b"HTTP/1.1 204 No Content\r\n" + TWO + b"\r\nab", 204, b""),
    "304 with chunks": (b"HTTP/1.1 304 Not Modified\r\n" + CHUNKED + b"\r\n0\r\n\r\n", 304, b""),
}
REFUSED = {
    "two different lengths": OK + TWO + b"Content-Length: 3\r\n\r\nab",
    "two different lengths in a line": OK + b"Content-Length: 2, 3\r\n\r\nab",
    "a negative length": OK + b"Content-Length: -1\r\n\r\nab",
    "a length that is not a number": OK + b"Content-Length: two\r\n\r\nab",
    "an empty length": OK + b"Content-Length: \r\n\r\nab",
    "a length of 30 digits": OK + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nab",
    "gzip as transfer encoding": OK + b"Transfer-Encoding: gzip\r\n\r\nab",
    "an end in the head": OK + b"Content-Le",
    "an end at once": b"",
    "no HTTP": b"hello\r\n\r\n",
    "a status of 99": WHOLE.replace(b"200", b"099"),
    "a status of 600": WHOLE.replace(b"200", b"600"),
    "a status of 999": WHOLE.replace(b"200", b"999"),
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a control character in a header": OK + b"X: a\x01b\r\n" + TWO + b"\r\nab",
    "a DEL in a header": OK + b"X: a\x7fb\r\n" + TWO + b"\r\nab",
    "a head of 200 kB": OK + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
}
BROKEN = {
    "less than the length": OK + b"Content-Length: 5\r\n\r\nab",
    "an end in a chunk": OK + CHUNKED + b"\r\n5\r\nab",
    "an end between chunks": OK + CHUNKED + b"\r\n2\r\nab\r\n",
    "a chunk without a size": OK + CHUNKED + b"\r\nzz\r\nab\r\n",
}

module_loop = pytest.mark.asyncio(loop_scope="module")


@module_loop
@pytest.mark.parametrize("name", PASSED)
async def test_unusual_but_valid_replies_are_forwarded(
    name: str, vendor: RawVendor, caplog: pytest.LogCaptureFixture
) -> None:
    reply, status, body = PASSED[name]
    got = await get(vendor, reply)
    assert (got.status, got.body, got.logged) == (status, body, [])
    assert got.headers.get("content-length", str(len(body))) == str(len(body))
    assert not caplog.records


@module_loop
@pytest.mark.parametrize("name", TOO_MUCH)
async def test_bytes_after_a_reply_are_dropped(
    name: str, vendor: RawVendor, caplog: pytest.LogCaptureFixture
) -> None:
    reply, status, body = TOO_MUCH[name]
    got = await get(vendor, reply)
    assert (got.status, got.body, got.logged) == (status, body, ["upstream_sent_too_much"])
    assert not caplog.records


@module_loop
async def test_bytes_after_a_reply_are_not_taken_for_the_next_reply(vendor: RawVendor) -> None:
    """The next request on the connection can be another user's."""
    vendor.replies, vendor.stays = [WHOLE + OK + b"Content-Length: 4\r\n\r\nevil", WHOLE], True
    async with proxied(vendor) as daemon:
        bodies = [(await daemon.http.get("/proxy/openai/v1/models")).content for _ in range(3)]
    assert bodies == [b"ab"] * 3


@module_loop
async def test_a_connection_is_used_again_after_a_whole_reply(vendor: RawVendor) -> None:
    vendor.replies, vendor.stays, before = [WHOLE], True, vendor.connections
    async with proxied(vendor) as daemon:
        for _ in range(3):
            await daemon.http.get("/proxy/openai/v1/models")
    assert vendor.connections == before + 1


@module_loop
@pytest.mark.parametrize("name", REFUSED)
async def test_a_reply_that_is_not_http_becomes_a_502(
    name: str, vendor: RawVendor, caplog: pytest.LogCaptureFixture
) -> None:
    got = await get(vendor, REFUSED[name])
    assert (got.status, json.loads(got.body)["error"]["code"]) == (502, "upstream_failed")
    assert got.logged == ["upstream_failed"]
    assert not caplog.records


@module_loop
@pytest.mark.parametrize("name", BROKEN)
async def test_a_body_cut_off_by_the_vendor_is_cut_off_for_the_client(
    name: str, vendor: RawVendor, caplog: pytest.LogCaptureFixture
) -> None:
    got = await get(vendor, BROKEN[name])
    assert (got.status, got.logged) == (0, ["upstream_failed"])
    assert not caplog.records


@module_loop
@pytest.mark.parametrize("name", [*PASSED, *TOO_MUCH, *REFUSED, *BROKEN])
async def test_a_reply_to_head_has_no_body(
    name: str, vendor: RawVendor, caplog: pytest.LogCaptureFixture
) -> None:
    reply = {**PASSED, **TOO_MUCH}.get(name, (REFUSED.get(name) or BROKEN.get(name, b""),))[0]
    got = await get(vendor, reply, method="HEAD")
    assert (got.status == 502, got.body) == (name in REFUSED, b"")
    assert not {"request_crashed", "upstream_failed" if name not in REFUSED else ""} & {*got.logged}
    assert not caplog.records


@module_loop
@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "ollama"])
async def test_a_502_is_in_the_form_of_the_vendor(name: str, vendor: RawVendor) -> None:
    got = await get(vendor, b"", name=name)
    error = json.loads(got.body)["error"]
    message = error if name == "ollama" else error["message"]
    assert got.status == 502
    assert name in message
    assert got.headers["x-request-id"]
