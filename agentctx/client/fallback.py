"""The way of an SDK's calls: over the daemon's socket, or to the vendor while nothing listens there."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlsplit

from agentctx.config.outgoing import is_loopback
from agentctx.errors import InvalidInput

_log: Final = logging.getLogger(__name__)
_KEPT_BACK: Final = (b"x-agentctx-", b"host:")


class FallbackTransport:
    """A transport for a client of httpx, synchronous or asynchronous, over two of its kind.

    `urls` are the base URL that the SDK uses, and the vendor's. A call goes to the vendor only after one of
    the errors `not_connected`, before anything was sent, so it never goes to both.
    """

    def __init__(
        self, daemon: Any, vendor: Any, urls: tuple[str, str], not_connected: tuple[type[Exception], ...]
    ) -> None:
        self._daemon = daemon
        self._vendor = vendor
        self._proxy_url, self._vendor_url = urls
        self._not_connected = not_connected
        self._has_warned = False

    def handle_request(self, request: Any) -> Any:
        try:
            return self._daemon.handle_request(request)
        except self._not_connected:
            return self._vendor.handle_request(self._direct(request))

    async def handle_async_request(self, request: Any) -> Any:
        try:
            return await self._daemon.handle_async_request(request)
        except self._not_connected:
            return await self._vendor.handle_async_request(self._direct(request))

    def close(self) -> None:
        self._daemon.close()
        self._vendor.close()

    async def aclose(self) -> None:
        await self._daemon.aclose()
        await self._vendor.aclose()

    def _direct(self, request: Any) -> Any:
        """Return the request for the vendor, without our headers. A client warns once."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("no agentctx daemon answers: LLM calls go to %s without context", self._vendor_url)
        url = type(request.url)(self._vendor_url + str(request.url).removeprefix(self._proxy_url))
        given = [pair for pair in request.headers.raw if not (pair[0].lower() + b":").startswith(_KEPT_BACK)]
        options = {"stream": request.stream, "extensions": request.extensions}
        return type(request)(request.method, url, headers=[(b"Host", url.netloc), *given], **options)


def vendor_url(fallback: str | bool, own: str) -> str:
    """Return the base URL of the vendor; `own` for True. Raises InvalidInput if no key may be sent there."""
    if fallback is True:
        return own
    url = urlsplit(str(fallback))
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
    if is_safe and url.hostname and "@" not in url.netloc:
        return url.geturl().rstrip("/")
    raise InvalidInput(
        "No key may be sent to the base URL of the fallback.",
        hint="Use True for the vendor's own, or a URL that begins with https://.",
    )
