"""Connections to the vendors: one pooled client, only addresses set by the operator, no redirects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote_to_bytes

import structlog

from agentctx.errors import InvalidInput, UpstreamFailed
from agentctx.proxy.headers import forwarded
from agentctx.proxy.vendors import Headers

if TYPE_CHECKING:
    import httpx

_log = structlog.get_logger("agentctx.proxy")

MAX_CONNECTIONS: Final = 512
_KEEP_ALIVE_S: Final = 30.0
_AGAIN: Final = (
    "Send the request again; if the error persists, the fault is with the vendor or a proxy in front of it."
)
_TO_PARSER: Final = ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
"""Attributes that lead from the stream of an httpx reply to the parser of its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """An outgoing request. `target` is the path (after the vendor) and query, as the client sent them."""

    vendor: str
    method: str
    target: bytes
    headers: Headers
    body: bytes


class Upstreams:
    """Sends requests to the configured vendors. The client is created on first use; call `aclose`.

    Args:
        urls: base URLs by vendor, without a trailing slash; an empty one disables the vendor.
        connect_timeout_s: how long connecting may take.
        read_timeout_s: how long a vendor may be silent; models may think for minutes.
        use_environment_proxies: whether to use HTTPS_PROXY and similar variables.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        *,
        connect_timeout_s: float,
        read_timeout_s: float,
        use_environment_proxies: bool = False,
    ) -> None:
        self._urls = dict(urls)
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._use_environment_proxies = use_environment_proxies
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def send(self, request: UpstreamRequest) -> AsyncIterator[httpx.Response]:
        """Send a request; yield the reply with its body unread. Leaving the block closes the exchange.

        Raises:
            InvalidInput: the vendor is disabled, or the path leads outside of its base URL.
            UpstreamFailed: there was no answer, or not valid HTTP.
        """
        client = await self._opened()
        import httpx

        outgoing = httpx.Request(
            request.method,
            self._address(request),
            headers=forwarded(request.headers),
            content=request.body or None,
            extensions={"timeout": self._timeouts()},
        )
        try:
            reply = await client.send(outgoing, stream=True)
        except httpx.HTTPError as error:
            raise _failed(request.vendor, error) from None
        try:
            yield reply
            if _has_surplus(reply):
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
        except httpx.HTTPError as error:
            raise _failed(vendor, error) from None

    def _address(self, request: UpstreamRequest) -> httpx.URL:
        import httpx

        base = self._urls.get(request.vendor, "")
        if not base:
            raise InvalidInput(
                f"The proxy does not forward to {request.vendor!r}.",
                hint=f"Set proxy.{request.vendor}_url in the daemon's config.",
            )
        require_inside(request.target)
        url = httpx.URL(base)
        return url.copy_with(raw_path=url.raw_path.rstrip(b"/") + in_ascii(request.target))

    def _timeouts(self) -> dict[str, float]:
        return {
            "connect": self._connect_timeout_s,
            "read": self._read_timeout_s,
            "write": self._read_timeout_s,
            "pool": self._connect_timeout_s,
        }

    async def _opened(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                # In a thread, because the import and the certificates take a tenth of a second.
                self._client = await asyncio.to_thread(self._open)
            return self._client

    def _open(self) -> httpx.AsyncClient:
        import httpx

        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_S)
        return httpx.AsyncClient(
            limits=limits, trust_env=self._use_environment_proxies, follow_redirects=False
        )


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
    found: Any = reply.stream
    for name in _TO_PARSER:
        found = getattr(found, name, None)
    return found is None or bool(found.trailing_data[0])


def _failed(vendor: str, error: Any) -> UpstreamFailed:
    import httpx

    if isinstance(error, httpx.RemoteProtocolError):
        # After a colon, the text quotes the vendor's bytes.
        reason = str(error).partition(":")[0].rstrip(".")
        return UpstreamFailed(f"{vendor} did not send a complete, valid HTTP reply ({reason}).", hint=_AGAIN)
    return UpstreamFailed(
        f"{vendor} does not answer ({type(error).__name__}).",
        hint=f"Check proxy.{vendor}_url and the network, then send the request again.",
    )
