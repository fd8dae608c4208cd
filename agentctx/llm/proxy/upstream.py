"""Connections to the vendors: one pooled client, only addresses set by the operator, no redirects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote_to_bytes

import structlog

from agentctx.config.outgoing import CERTIFICATE_HINT, open_transport, tls_problem
from agentctx.errors import ConfigInvalid, InvalidInput, UpstreamFailed
from agentctx.llm.proxy.headers import forwarded
from agentctx.llm.proxy.vendors import Headers

if TYPE_CHECKING:
    import httpx

_log = structlog.get_logger("agentctx.proxy")

MAX_CONNECTIONS: Final = 512
_KEEP_ALIVE_S: Final = 30.0
_AGAIN: Final = (
    "Send the request again; if the error persists, the fault is with the vendor or a proxy in front of it."
)
_DISCONNECTED: Final = "Server disconnected"
"""How httpx begins the message for a connection that ended before an answer."""
_TO_PARSER: Final = ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
"""Attributes that lead from the stream of an httpx reply to the parser of its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """An outgoing request. `target` is the path (after the vendor) and query, as the client sent them."""

    vendor: str
    base_url: str
    """Never from the client: `Upstreams.base_url`, or the upstream of a run."""
    method: str
    target: bytes
    headers: Headers
    body: bytes


@dataclass(kw_only=True)
class Upstreams:
    """Sends requests to vendors. The client of an address is created on first use; call `aclose`."""

    urls: Mapping[str, str]
    """Base URLs by vendor, without a trailing slash; an empty one disables the vendor."""
    connect_timeout_s: float
    """How long connecting may take."""
    read_timeout_s: float
    """How long a vendor may be silent; models may think for minutes."""
    use_environment_proxies: bool = False
    """Whether to use HTTPS_PROXY and similar variables."""
    _clients: dict[str, httpx.AsyncClient] = field(default_factory=dict, init=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def base_url(self, vendor: str) -> str:
        """Return the configured address of a vendor.

        Raises:
            InvalidInput: the vendor is disabled.
        """
        if base_url := self.urls.get(vendor, ""):
            return base_url
        raise InvalidInput(
            f"The proxy does not forward to {vendor!r}.",
            hint=f"Set proxy.{vendor}_url in the daemon's config.",
        )

    @asynccontextmanager
    async def send(self, request: UpstreamRequest) -> AsyncIterator[httpx.Response]:
        """Send a request; yield the reply with its body unread. Leaving the block closes the exchange.

        If a connection that was used before dies before the answer begins, the request goes once more: a
        vendor may close an idle one at any moment.

        Raises:
            InvalidInput: the path leads outside of the base URL.
            UpstreamFailed: there was no answer, or not valid HTTP; or no client can be made.
        """
        client = await self._opened(request)
        import httpx

        try:
            reply = await self._answer(client, request)
        except httpx.HTTPError as error:
            raise _failed(request.vendor, error) from None
        try:
            yield reply
            if reply.is_stream_consumed and _has_surplus(reply):
                _log.warning("upstream_sent_too_much", vendor=request.vendor, status=reply.status_code)
                await reply.extensions["network_stream"].aclose()
        finally:
            await reply.aclose()

    async def pieces(self, vendor: str, reply: httpx.Response) -> AsyncGenerator[bytes, None]:
        """Yield the body of a reply as received.

        Raises:
            UpstreamFailed: the reply is cut short.
        """
        import httpx

        try:
            # Not `aiter_raw`, which releases the connection before `send` has checked it.
            async for piece in cast("AsyncIterable[bytes]", reply.stream):
                yield piece
            reply.is_stream_consumed = True
        except httpx.HTTPError as error:
            raise _failed(vendor, error) from None

    async def _answer(self, client: httpx.AsyncClient, request: UpstreamRequest) -> httpx.Response:
        import httpx

        is_used = True

        async def note(event: str, _: Any) -> None:
            nonlocal is_used
            is_used = is_used and "connect_tcp" not in event

        timeout = httpx.Timeout(
            self.read_timeout_s, connect=self.connect_timeout_s, pool=self.connect_timeout_s
        )
        outgoing = httpx.Request(
            request.method,
            _address(request),
            headers=forwarded(request.headers),
            content=request.body or None,
            extensions={"timeout": timeout.as_dict(), "trace": note},
        )
        try:
            return await client.send(outgoing, stream=True)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            is_answer = isinstance(error, httpx.RemoteProtocolError) and _DISCONNECTED not in str(error)
            if not is_used or is_answer:
                raise
        return await client.send(outgoing, stream=True)

    async def _opened(self, request: UpstreamRequest) -> httpx.AsyncClient:
        async with self._opening:
            if request.base_url not in self._clients:
                # In a thread, because the import and the certificates take a tenth of a second.
                try:
                    made = await asyncio.to_thread(self._open, request.base_url)
                except ConfigInvalid as error:
                    raise UpstreamFailed(
                        f"{request.vendor} cannot be asked: {error.message}", hint=error.hint
                    ) from error
                self._clients[request.base_url] = made
            return self._clients[request.base_url]

    def _open(self, base_url: str) -> httpx.AsyncClient:
        import httpx

        from agentctx.llm.proxy.early_reply import listen_while_sending

        transport = open_transport(
            base_url,
            use_environment_proxies=self.use_environment_proxies,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_S),
        )
        listen_while_sending(transport)
        return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)


def _address(request: UpstreamRequest) -> httpx.URL:
    import httpx

    require_inside(request.target)
    url = httpx.URL(request.base_url)
    return url.copy_with(raw_path=url.raw_path.rstrip(b"/") + in_ascii(request.target))


def in_ascii(target: bytes) -> bytes:
    """Percent-encode every byte of the target that a URL may not contain."""
    return b"".join(bytes([byte]) if 0x20 < byte < 0x7F else b"%%%02X" % byte for byte in target)


def require_inside(target: bytes) -> None:
    """Check that the path stays below the vendor's base URL.

    Raises:
        InvalidInput: the path has a `..` part, percent-encoded or not.
    """
    path = unquote_to_bytes(target.partition(b"?")[0]).replace(b"\\", b"/")
    if b".." in path.split(b"/"):
        raise InvalidInput(
            "The path leads outside the vendor's base URL.", hint="Use a path of the vendor's API."
        )


def _has_surplus(reply: httpx.Response) -> bool:
    """Return whether the vendor sent surplus bytes, with which the connection's next reply would begin.

    No public API tells. If a version of the client keeps them elsewhere, the connection is not reused.
    """
    parser: Any = reply.stream
    for name in _TO_PARSER:
        parser = getattr(parser, name, None)
    return parser is None or bool(parser.trailing_data[0])


def _failed(vendor: str, error: Any) -> UpstreamFailed:
    import httpx

    if isinstance(error, httpx.RemoteProtocolError):
        # After a colon, the text quotes the vendor's bytes.
        reason = str(error).partition(":")[0].rstrip(".")
        return UpstreamFailed(f"{vendor} did not send a complete, valid HTTP reply ({reason}).", hint=_AGAIN)
    if untrusted := tls_problem(error):
        return UpstreamFailed(f"{vendor} was not asked: {untrusted}.", hint=CERTIFICATE_HINT)
    return UpstreamFailed(
        f"{vendor} does not answer ({type(error).__name__}).",
        hint=f"Check proxy.{vendor}_url and the network, then send the request again.",
    )
