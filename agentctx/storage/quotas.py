"""Per-user quotas, by uid. Pure decisions: the time and the stored amount are arguments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from agentctx.config.access import QuotaSettings
from agentctx.errors import QuotaExceeded, RateLimited

Quota = Literal["requests", "connections", "queue", "stored"]

IN_USE_S: Final = 60.0
"""How long a user counts as using the daemon after their last request."""
DRAINING_S: Final = 5.0
"""Retry delay when the queue is full."""
_MEBIBYTE: Final = 1024 * 1024
_MAX_USERS: Final = 10_000
"""Maximum number of users remembered; those idle longest are dropped first."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A user's usage: bytes of stored content, and number of texts waiting to be embedded."""

    stored_bytes: int
    waiting: int


@dataclass(slots=True)
class _User:
    """A user's token bucket: a request takes one, and `requests_per_second` are added."""

    tokens: float
    seen: float


class Quotas:
    """Enforces the quotas.

    Args:
        settings: the quotas, which are the same for all users.
        unlimited: uids without quotas.
        capacity: number of texts that the embedding queue holds.
        refused: called on each refusal with the exceeded quota.
    """

    def __init__(
        self,
        settings: QuotaSettings,
        *,
        unlimited: Iterable[int],
        capacity: int,
        refused: Callable[[Quota], object] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._unlimited = frozenset(unlimited)
        self._most_waiting = settings.queue_share * capacity if settings.queue_share < 1.0 else math.inf
        self._refused = refused
        self._users: dict[int, _User] = {}
        """By uid, in the order of their last requests."""
        self._connections: Counter[int] = Counter()

    def connect(self, uid: int) -> None:
        """Count a connection until `disconnect`.

        Raises:
            RateLimited: the user has too many connections; this one is still counted.
        """
        self._connections[uid] += 1
        maximum = self._settings.connections
        if maximum and uid not in self._unlimited and self._connections[uid] > maximum:
            raise self._over("connections", f"You already have {maximum} connections open.", 1.0)

    def disconnect(self, uid: int) -> None:
        self._connections[uid] -= 1

    def request(self, uid: int, now: float, *, is_admin: bool = False) -> bool:
        """Count a request. Return whether this user has quotas.

        Raises:
            RateLimited: the user exceeds `requests_per_second`.
        """
        rate, burst = self._settings.requests_per_second, float(self._settings.burst)
        user = self._users[uid] = self._users.pop(uid, _User(burst, now))
        if len(self._users) > _MAX_USERS:
            del self._users[next(iter(self._users))]
        user.tokens = min(burst, user.tokens + max(0.0, now - user.seen) * rate)
        user.seen = max(user.seen, now)
        is_limited = not is_admin and uid not in self._unlimited
        if is_limited and rate:
            if user.tokens < 1.0:
                wait_s = (1.0 - user.tokens) / rate
                raise self._over("requests", f"You send more than {rate:g} requests a second.", wait_s)
            user.tokens -= 1.0
        return is_limited

    def save(self, uid: int, usage: Usage, adding: int, now: float) -> None:
        """Check the quotas of a user who has some for a save of at most `adding` bytes.

        Raises:
            RateLimited: too many of the user's texts wait to be embedded while others use the daemon.
            QuotaExceeded: the user would store more than allowed.
        """
        others = (user for other, user in self._users.items() if other != uid)
        if usage.waiting >= self._most_waiting and any(now - user.seen <= IN_USE_S for user in others):
            raise self._over("queue", f"{usage.waiting} of your texts wait to be embedded.", DRAINING_S)
        maximum = self._settings.stored_mb * _MEBIBYTE
        if maximum and usage.stored_bytes + adding > maximum:
            self._refused("stored")
            raise QuotaExceeded(
                f"Storage quota exceeded: you may store {self._settings.stored_mb} MiB of content and have "
                f"{usage.stored_bytes / _MEBIBYTE:.1f} MiB."
            )

    def _over(self, quota: Quota, what: str, retry_after_s: float) -> RateLimited:
        self._refused(quota)
        return RateLimited(what, retry_after_s=retry_after_s)
