"""Wraps every request: request id, headers of the reply, and the last error handler."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentctx import __version__
from agentctx.errors import AgentctxError, InvalidInput, OutOfMemory, Unavailable
from agentctx.server.errors import INTERNAL, STOPPING_HINT, error_response
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire import API_PREFIX, IDEMPOTENCY_HEADER, REQUEST_ID_HEADER, VERSION_HEADER

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ID_NAME = REQUEST_ID_HEADER.lower().encode()
_VERSION_LINE = (VERSION_HEADER.lower().encode(), __version__.encode())

_IDEMPOTENCY_NAME = IDEMPOTENCY_HEADER.lower().encode()
_OUR_HEADERS = b"x-agentctx-"

_WITHOUT_HEADERS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths polled by monitoring. They would dominate the log, and must be cheap."""
_NO_ROUTE = "unknown"

_log = structlog.get_logger(__name__)


VersionPolicy = Callable[[Scope], Awaitable[bool]]
"""Returns whether the reply to a request may name the version."""


def new_request_id() -> str:
    return secrets.token_hex(8)


async def hide_version(_: Scope) -> bool:
    """Hide the version from every caller, where the kernel does not identify the peer."""
    return False


@dataclass
class RequestContext:
    """ASGI middleware. Binds `request_id` for the log, taken from the request if it is 1 to 64 of
    `A-Za-z0-9._-`; adds it to the reply, and the version if the caller may know it; turns uncaught errors
    into the error body; reports how long the request took.
    """

    app: ASGIApp
    telemetry: Telemetry = NO_TELEMETRY
    may_show_version: VersionPolicy = hide_version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        structlog.contextvars.bind_contextvars(request_id=request_id)
        version = [_VERSION_LINE] if await self.may_show_version(scope) else []
        reply = _Reply(send, [*version, (_ID_NAME, request_id.encode())])
        if scope["path"] in _WITHOUT_HEADERS:
            await self._answer(scope, receive, reply)
            return
        with self.telemetry.request(scope["method"], scope["headers"], request_id) as operation:
            try:
                await self._answer(scope, receive, reply)
            finally:
                operation.ended(route_template(scope), str(reply.status))

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        try:
            check_target(scope)
            check_single_headers(scope)
            await self.app(scope, receive, reply.send)
        except AgentctxError as error:
            if reply.started and (cut := scope.get("state", {}).get("cut")):
                await cut()  # the peer sees an incomplete reply
            await reply.fail(error, scope, receive)
        except asyncio.CancelledError:
            await reply.fail(
                Unavailable("The daemon is stopping; the request was not finished.", hint=STOPPING_HINT),
                scope,
                receive,
            )
            raise
        except MemoryError:
            if reply.started:
                raise
            await reply.fail(OutOfMemory("The daemon has no memory left for this request."), scope, receive)
        except Exception:
            _log.exception("request_crashed", method=scope["method"])
            if reply.started:
                raise  # the server then cuts the connection, so the client sees an incomplete reply
            await reply.fail(INTERNAL, scope, receive)


class _Reply:
    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.started = False
        self.status = 500
        """Status of the reply; a request that never got one counts as a fault of the daemon."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            # A request id of the vendor, passed on by the proxy, is not replaced.
            given = list(message.get("headers", ()))
            names = {name for name, _ in given}
            message["headers"] = [*given, *(line for line in self._headers if line[0] not in names)]
        await self._send(message)

    async def fail(self, error: AgentctxError, scope: Scope, receive: Receive) -> None:
        if not self.started:
            await error_response(error)(scope, receive, self.send)


def check_target(scope: MutableMapping[str, Any]) -> None:
    """Raise `InvalidInput` if path or query, percent-decoded, are not UTF-8 or contain a NUL."""
    for part in (scope.get("raw_path") or b"", scope["query_string"]):
        if b"%" not in part and part.isascii():
            continue
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise InvalidInput("The path or the query is not valid text.", hint="Percent-encode it as UTF-8.")


def check_single_headers(scope: MutableMapping[str, Any]) -> None:
    """Raise `InvalidInput` if one of our headers appears twice, because it is ambiguous which one counts.

    An Idempotency-Key is checked on our own routes only; a vendor has its own.
    """
    is_ours = scope["path"].startswith(API_PREFIX)
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name.startswith(_OUR_HEADERS) or (is_ours and name == _IDEMPOTENCY_NAME):
            if name in seen:
                raise InvalidInput(
                    f"The header {name.decode('latin-1').title()} appears twice.", hint="Send it once."
                )
            seen.add(name)


def route_template(scope: MutableMapping[str, Any]) -> str:
    """Return the route like `/v1/entries/{entry_id}`, so that metrics have few distinct values."""
    return getattr(scope.get("route"), "path", _NO_ROUTE)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == _ID_NAME and _SANE_ID.fullmatch(value):
            return bytes(value).decode()
    return new_request_id()
