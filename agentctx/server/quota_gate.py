"""Quotas of requests: how many a user may send, and how much their saves may add."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx.storage.quotas import Quotas, Usage

UsageOf = Callable[[int], Awaitable[Usage]]
"""Returns the usage of the user with this uid."""

CACHED_S: Final = 10.0
"""Seconds for which a looked-up usage is reused; saves in the meantime are added by their size."""
_SAVES: Final = frozenset({("POST", "/v1/entries"), ("POST", "/v1/import")})
_SAVE_PREFIX: Final = "/v1/entries/"
_UNCOUNTED: Final = frozenset({"/healthz", "/readyz"})
_MAX_USERS: Final = 1_000


@dataclass(slots=True)
class _CachedUsage:
    usage: Usage
    at: float
    added: int = 0


class QuotaGate:
    """ASGI middleware below `RequestContext`, which turns its exceptions into replies.

    Args:
        quotas: decides whether a request is within its quotas.
        access: identifies admins, who have no quotas.
        usage: called for users with quotas before they save.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        quotas: Quotas,
        access: AccessControl,
        usage: UsageOf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._quotas = quotas
        self._access = access
        self._usage = usage
        self._clock = clock
        self._known: dict[int, _CachedUsage] = {}
        self._asked: dict[int, asyncio.Task[_CachedUsage]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("state", {}).get("peer")
        if scope["type"] == "http" and isinstance(peer, Peer) and scope["path"] not in _UNCOUNTED:
            await self._count(scope, peer)
        await self._app(scope, receive, send)

    async def _count(self, scope: Scope, peer: Peer) -> None:
        rights = await self._access.rights_of(peer)
        self._quotas.request(peer.uid, self._clock(), is_admin=rights.is_admin)
        has_quotas = not rights.is_admin and self._quotas.has_quotas(peer.uid)
        # Callers without rights are refused by the gate behind this one.
        if rights and has_quotas and saves(scope["method"], scope["path"]):
            cached = await self._look_up(peer.uid)
            adding = body_bytes(scope)
            have = Usage(cached.usage.stored_bytes + cached.added, cached.usage.waiting)
            self._quotas.save(peer.uid, have, adding, self._clock())
            cached.added += adding

    async def _look_up(self, uid: int) -> _CachedUsage:
        cached = self._known.get(uid)
        if cached is not None and self._clock() - cached.at < CACHED_S:
            return cached
        # Concurrent saves of one user share one lookup, so that their sizes are added up in one place.
        if uid not in self._asked:
            task = self._asked[uid] = asyncio.create_task(self._ask(uid))
            task.add_done_callback(lambda _: self._asked.pop(uid))
        return await asyncio.shield(self._asked[uid])

    async def _ask(self, uid: int) -> _CachedUsage:
        cached = _CachedUsage(await self._usage(uid), self._clock())
        if len(self._known) >= _MAX_USERS:
            self._known.clear()
        self._known[uid] = cached
        return cached


def saves(method: str, path: str) -> bool:
    """Return whether a request may add content."""
    return (method, path) in _SAVES or (method == "PATCH" and path.startswith(_SAVE_PREFIX))


def body_bytes(scope: Scope) -> int:
    """Return the announced size of the body, an upper limit of its content; 0 if it is chunked."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return 0
