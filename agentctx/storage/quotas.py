"""Per-user quotas, by uid. Pure decisions: the time and the stored amount are arguments."""

from __future__ import annotations

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


class TokenBucket:
    """Allows `rate` requests per second on average, with bursts of up to `burst`."""

    def __init__(self, burst: int, now: float) -> None:
        self._tokens = float(burst)
        self._filled = now

    def take(self, *, rate: float, burst: int, now: float) -> float:
        """Take a token and return 0.0, or return the seconds until one is available."""
        self._tokens = min(float(burst), self._tokens + max(0.0, now - self._filled) * rate)
        self._filled = max(self._filled, now)
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / rate


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
        self._capacity = capacity
        self._refused = refused
        self._buckets: dict[int, TokenBucket] = {}
        self._seen: dict[int, float] = {}
        self._connections: Counter[int] = Counter()

    def has_quotas(self, uid: int) -> bool:
        return uid not in self._unlimited

    def connect(self, uid: int) -> None:
        """Count a connection until `disconnect`.

        Raises:
            RateLimited: the user has too many connections; this one is still counted.
        """
        self._connections[uid] += 1
        maximum = self._settings.connections
        if maximum and self.has_quotas(uid) and self._connections[uid] > maximum:
            raise self._over("connections", f"You already have {maximum} connections open.", 1.0)

    def disconnect(self, uid: int) -> None:
        self._connections[uid] -= 1
        if self._connections[uid] <= 0:
            del self._connections[uid]

    def request(self, uid: int, now: float, *, is_admin: bool = False) -> None:
        """Count a request.

        Raises:
            RateLimited: the user exceeds `requests_per_second`.
        """
        self._note(uid, now)
        rate, burst = self._settings.requests_per_second, self._settings.burst
        if not rate or is_admin or not self.has_quotas(uid):
            return
        bucket = self._buckets.setdefault(uid, TokenBucket(burst, now))
        if wait_s := bucket.take(rate=rate, burst=burst, now=now):
            raise self._over("requests", f"You send more than {rate:g} requests a second.", wait_s)

    def save(self, uid: int, usage: Usage, adding: int, now: float) -> None:
        """Check the quotas for a save of at most `adding` bytes.

        Raises:
            RateLimited: too many of the user's texts wait to be embedded while others use the daemon.
            QuotaExceeded: the user would store more than allowed.
        """
        if not self.has_quotas(uid):
            return
        share = self._settings.queue_share
        if share < 1.0 and usage.waiting >= share * self._capacity and self._is_shared(uid, now):
            raise self._over("queue", f"{usage.waiting} of your texts wait to be embedded.", DRAINING_S)
        maximum = self._settings.stored_mb * _MEBIBYTE
        if maximum and usage.stored_bytes + adding > maximum:
            self._refused("stored")
            raise QuotaExceeded(
                f"Storage quota exceeded: you may store {self._settings.stored_mb} MiB of content and have "
                f"{usage.stored_bytes / _MEBIBYTE:.1f} MiB."
            )

    def _is_shared(self, uid: int, now: float) -> bool:
        return any(now - seen <= IN_USE_S for other, seen in self._seen.items() if other != uid)

    def _note(self, uid: int, now: float) -> None:
        self._seen.pop(uid, None)  # keeps the order by last request
        self._seen[uid] = now
        if len(self._seen) > _MAX_USERS:
            forgotten = next(iter(self._seen))
            del self._seen[forgotten]
            self._buckets.pop(forgotten, None)

    def _over(self, quota: Quota, what: str, retry_after_s: float) -> RateLimited:
        self._refused(quota)
        return RateLimited(what, retry_after_s=retry_after_s)
