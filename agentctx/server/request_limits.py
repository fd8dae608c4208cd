"""The limits of a request's head and body, in ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence

from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from agentctx.config.schema import ServerSettings
from agentctx.errors import (
    AgentctxError,
    InvalidInput,
    RequestFailed,
    RequestTimeout,
    TooLarge,
    UpgradeRefused,
)
from agentctx.server.errors import STATUS, error_json, retry_after
from agentctx.server.request_context import new_request_id
from agentctx.wire import REQUEST_ID_HEADER

LINGER_S = 1.0
"""How long a reply waits for the rest of an unread body, and a closing connection for the peer to read it."""
_VERSIONS = frozenset({"1.0", "1.1"})
_PROXIED = re.compile(r"(/t/[^/]+)?/proxy/")
"""Matches calls through the proxy, also with the port's token in the path."""


class HeadTooLarge(TooLarge):
    """The request line and the headers are over `max_header_bytes`."""


def check_head(scope: Scope, settings: ServerSettings) -> None:
    """Refuse what the parser allows, and another reader of the same bytes might take for something else.

    Raises:
        HeadTooLarge: the head is over `max_header_bytes`.
        UpgradeRefused: it asks for WebSocket or HTTP/2. Only on 426 does Codex fall back at once.
        InvalidInput: another version of HTTP, another coding, or the wrong number of Host headers.
    """
    headers, version = scope["headers"], scope["http_version"]
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if size + sum(len(name) + len(value) + 4 for name, value in headers) > settings.max_header_bytes:
        raise HeadTooLarge(
            f"The request head is larger than {settings.max_header_bytes} bytes.",
            hint="Send long texts in the body; the limit is server.max_header_bytes.",
        )
    if version not in _VERSIONS:  # the parser reads a request line without a version as HTTP/0.9
        raise InvalidInput("Only HTTP/1.1 is supported.", hint="Use an HTTP client library, or curl.")
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (hosts == 0 and version != "1.0"):
        raise InvalidInput("The request needs exactly one Host header.", hint="Any name will do.")
    if b"transfer-encoding" in names:
        _check_coding(headers, version)
    if b"upgrade" in names and b"upgrade" in b",".join(_values(headers, b"connection")).lower():
        raise UpgradeRefused("Only HTTP/1.1 is supported.", hint="Do not send an Upgrade header.")


def _check_coding(headers: Sequence[tuple[bytes, bytes]], version: str) -> None:
    """Allow `chunked`, once and alone: the parser would skip any other coding before it (RFC 9112, 6.1)."""
    if version == "1.0" or _values(headers, b"content-length"):
        raise InvalidInput(
            "Transfer-Encoding is not allowed in HTTP/1.0, nor beside Content-Length.",
            hint="Use an HTTP client library, or curl.",
        )
    codings = _values(headers, b"transfer-encoding")
    if [value.strip(b" \t").lower() for value in codings] != [b"chunked"]:
        raise InvalidInput(
            "The only supported transfer coding is chunked, once.", hint="Send the body with Content-Length."
        )


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for each, value in headers if each == name]


def refusal(error: AgentctxError) -> Response:
    """Return the reply to a request that no application sees; the connection closes after it."""
    request_id = new_request_id()
    headers = {REQUEST_ID_HEADER: request_id, "Connection": "close", **retry_after(error)}
    if isinstance(error, UpgradeRefused):
        headers["Upgrade"] = "HTTP/1.1"
    status = 431 if isinstance(error, HeadTooLarge) else STATUS[error.code]
    return Response(error_json(error, request_id), status, headers, media_type="application/json")


class LimitedBody:
    """Receives a body within its limits of size and time. Only waiting for the peer takes time.

    Its exceptions end in the application, which replies with them.
    """

    def __init__(self, receive: Receive, scope: Scope, settings: ServerSettings) -> None:
        self._receive = receive
        is_proxied = _PROXIED.match(scope["path"])  # prompts may contain pictures
        self._most = settings.max_proxy_body_bytes if is_proxied else settings.max_body_bytes
        self._timeout_s = self._left_s = settings.body_timeout_s
        headers = dict(scope["headers"])
        is_chunked = b"transfer-encoding" in headers
        self._announced = 0 if is_chunked else int(headers.get(b"content-length", b"0"))
        self._received = 0
        self.wire_bytes = 2 * self._most if is_chunked else self._announced
        """Largest size that the body may have on the wire: framing and trailers count too."""
        self.is_complete = not is_chunked and not self._announced
        self._may_wait = b"expect" not in headers

    async def receive(self) -> Message:
        """Return the next message.

        Raises:
            TooLarge: the body, or the size that is announced, is over the limit.
            RequestTimeout: the peer did not send it in time.
            RequestFailed: the peer has gone away before it was complete.
        """
        if self.is_complete:
            return await self._receive()
        self._check(self._announced)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            self._may_wait = False
            raise RequestTimeout(
                f"The request body was not complete within {self._timeout_s:g} s.",
                hint="Send the request in one go.",
            ) from None
        if message["type"] == "http.disconnect":
            raise RequestFailed("The connection closed before the request was complete.")
        self._left_s -= loop.time() - began
        self._received += len(message.get("body", b""))
        self._check(self._received)
        self.is_complete = not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read the rest for a while, since closing a connection with unread data can lose the reply to it.

        Not after a timeout, nor if the peer asks whether to send the body at all.
        """
        if not self._may_wait:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self.is_complete:
                    self.is_complete = not (await self._receive()).get("more_body", False)

    def _check(self, size: int) -> None:
        if size > self._most:
            raise TooLarge(
                f"The request body is larger than {self._most} bytes.",
                hint="Send several requests; the limits are server.max_body_bytes and "
                "server.max_proxy_body_bytes.",
            )
