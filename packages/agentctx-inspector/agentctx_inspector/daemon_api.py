"""The daemon's API, called within its process with the rights, limits and audit of the page's reader."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp

from agentctx import wire
from agentctx.client import by_key
from agentctx.client.api_call import ApiCall
from agentctx.client.transport import HttpReply
from agentctx.errors import NotFound
from agentctx.server.inner_call import call_api

T = TypeVar("T")


class DaemonApi:
    """Sends the calls of `agentctx.client`."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api

    async def ask(self, request: Request, call: ApiCall[T]) -> T:
        """Return the reply to a call in the name of the request's peer. Raises the error that it names."""
        status, body = await call_api(self._api, request.scope, call.method, call.path, call.body or b"")
        return call.read(HttpReply(status, {}, body))

    async def find(self, request: Request, entry_id: str) -> wire.EntryView | None:
        """Return an entry; None if it is forgotten or may not be read."""
        with suppress(NotFound):
            return await self.ask(request, by_key.get(entry_id))
        return None
