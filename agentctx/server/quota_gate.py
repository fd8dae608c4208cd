"""Quotas of requests: how many a user may send, and how much their saves may add."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.types import Scope

from agentctx.service.access.grants import Rights
from agentctx.service.base import Peer
from agentctx.storage.quotas import Quotas, Usage

CACHED_S: Final = 10.0
"""Seconds for which a looked-up usage is reused; saves in the meantime are added by their size."""
_SAVES: Final = frozenset({("POST", "/v1/entries"), ("POST", "/v1/import")})
_EDITED: Final = "/v1/entries/"


@dataclass
class QuotaGate:
    """The part of the gate that counts."""

    quotas: Quotas
    """Decides whether a request is within its quotas."""
    usage: Callable[[int], Awaitable[Usage]]
    """Returns the usage of the user with this uid, before saves of users with quotas."""
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _known: dict[int, tuple[float, Usage]] = field(default_factory=dict, init=False)
    """By uid: when it was looked up, and the usage with what was added since."""
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def count(self, scope: Scope, peer: Peer, rights: Rights) -> None:
        """Count a request. Raises `RateLimited` or `QuotaExceeded`."""
        is_limited = self.quotas.request(peer.uid, self.clock(), is_admin=rights.is_admin)
        if is_limited and rights and _saves(scope["method"], scope["path"]):
            uid, adding = peer.uid, _announced(scope)
            async with self._saving:  # so that concurrent saves are added up
                now = self.clock()
                self._known = {uid: known for uid, known in self._known.items() if now - known[0] < CACHED_S}
                at, usage = self._known.get(uid) or (now, await self.usage(uid))
                self.quotas.save(uid, usage, adding, now)
                self._known[uid] = at, replace(usage, stored_bytes=usage.stored_bytes + adding)


def _saves(method: str, path: str) -> bool:
    return (method, path) in _SAVES or (method == "PATCH" and path.startswith(_EDITED))


def _announced(scope: Scope) -> int:
    """Return the announced size of the body, an upper limit of its content; 0 if it is chunked."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
