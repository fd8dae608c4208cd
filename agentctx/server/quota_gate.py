"""Quotas of requests: how many a user may send, and how much their saves may add."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from agentctx.service.access.control import AccessControl
from agentctx.service.base import Peer
from agentctx.storage.quotas import Quotas, Usage

CACHED_S: Final = 10.0
"""Seconds for which a looked-up usage is reused; saves in the meantime are added by their size."""
_SAVES: Final = frozenset({("POST", "/v1/entries"), ("POST", "/v1/import")})
_EDITED: Final = "/v1/entries/"
_UNCOUNTED: Final = frozenset({"/healthz", "/readyz"})


class QuotaGate:
    """ASGI middleware below `RequestContext`, which turns its exceptions into replies.

    Args:
        quotas: decides whether a request is within its quotas.
        access: identifies admins, who have no quotas.
        usage: returns the usage of the user with this uid, before saves of users with quotas.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        quotas: Quotas,
        access: AccessControl,
        usage: Callable[[int], Awaitable[Usage]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._quotas = quotas
        self._access = access
        self._usage = usage
        self._clock = clock
        self._known: dict[int, tuple[float, Usage]] = {}
        """By uid: when it was looked up, and the usage with what was added since."""
        self._saving = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("state", {}).get("peer")
        if scope["type"] == "http" and isinstance(peer, Peer) and scope["path"] not in _UNCOUNTED:
            rights = await self._access.rights_of(peer)
            is_limited = self._quotas.request(peer.uid, self._clock(), is_admin=rights.is_admin)
            # Callers without rights are refused by the gate behind this one.
            if is_limited and rights and _saves(scope["method"], scope["path"]):
                async with self._saving:  # so that concurrent saves are added up
                    await self._count_save(peer.uid, _announced(scope))
        await self._app(scope, receive, send)

    async def _count_save(self, uid: int, adding: int) -> None:
        now = self._clock()
        self._known = {uid: known for uid, known in self._known.items() if now - known[0] < CACHED_S}
        at, usage = self._known.get(uid) or (now, await self._usage(uid))
        self._quotas.save(uid, usage, adding, now)
        self._known[uid] = at, replace(usage, stored_bytes=usage.stored_bytes + adding)


def _saves(method: str, path: str) -> bool:
    return (method, path) in _SAVES or (method == "PATCH" and path.startswith(_EDITED))


def _announced(scope: Scope) -> int:
    """Return the announced size of the body, an upper limit of its content; 0 if it is chunked."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
