"""Requests to the daemon's own API from within, in the name of the peer of another request."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope


async def call_api(api: ASGIApp, outer: Scope, method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """Return status and body of the reply, with the API's checks and limits for the peer of `outer`."""
    exchange = _Exchange(body)
    # A separate task, so that its log lines get their own request id.
    await asyncio.ensure_future(api(_inner(outer, method, target, body), exchange.receive, exchange.send))
    return exchange.status, exchange.reply


class _Exchange:
    """One request within the process: its body, and the reply as it arrives."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.status = 0
        self.reply = b""
        self._is_read = False

    async def receive(self) -> Message:
        if self._is_read:
            await asyncio.Event().wait()  # the peer stays until the reply is complete
        self._is_read = True
        return {"type": "http.request", "body": self.request, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.reply += message.get("body", b"")


def _inner(outer: Scope, method: str, target: str, body: bytes) -> Scope:
    path, _, query = target.partition("?")
    headers = [(b"host", b"agentctx"), (b"content-type", b"application/json")]
    headers.append((b"content-length", b"%d" % len(body)))
    return {
        "type": "http",
        "asgi": outer["asgi"],
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": outer.get("client"),
        "server": outer.get("server"),
        "state": dict(outer.get("state", {})),
    }
