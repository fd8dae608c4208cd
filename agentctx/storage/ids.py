"""Entry ids: UUIDv7 (RFC 9562), which sort by creation time and carry a bucket of their namespace."""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import lru_cache
from threading import Lock
from typing import Final

BUCKETS: Final = 1_024
"""Number of buckets: requests that know only an entry's id can be routed to up to as many shards."""
_ID: Final = re.compile(r"(?!([0f])\1{7}-(?:\1{4}-){3}\1{12})[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STEP: Final = 32
"""Bits by which a number exceeds the one before it: enough that nobody guesses it."""
_CAPTURE: Final = re.compile(r"hook-([0-9a-f]{12})-[0-9a-f]{64}(?:/0)?")
"""The Idempotency-Key of what a hook saves, with the milliseconds at which its turn began."""


class _Numbers:
    """Random numbers of 64 bits that ascend within a millisecond."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = (0, 0)

    def next(self, now_ms: int) -> int:
        with self._lock:
            then, last = self._last
            number = last + 1 + secrets.randbits(_STEP) if then == now_ms else secrets.randbits(63)
            self._last = now_ms, number
        return number


_NUMBERS: Final = _Numbers()


def new_id(now_ms: int, namespace: str) -> str:
    """Return an id of 48 bits of milliseconds since the epoch, 64 random bits and the namespace's bucket.

    The ids that a process makes within a millisecond ascend.
    """
    return _written(now_ms, _NUMBERS.next(now_ms), namespace)


def id_of_capture(key: str, namespace: str) -> str | None:
    """Return the id of what a hook saves with this Idempotency-Key; None if the key has no time.

    It is the same whenever the turn is saved, so an import of the transcript finds it, even forgotten.
    """
    match = _CAPTURE.fullmatch(key)
    if match is None:
        return None
    return derived_id(key.removesuffix("/0"), int(match[1], 16), namespace)


def derived_id(identity: str, now_ms: int, namespace: str) -> str:
    """Return the id that an identity has in a namespace: the same for the same time, in any process."""
    digest = hashlib.sha256(f"{namespace}\0{identity}".encode("utf-8", "surrogatepass")).digest()
    return _written(now_ms, int.from_bytes(digest[:8]) >> 1, namespace)


def _written(now_ms: int, number: int, namespace: str) -> str:
    random = number * BUCKETS + bucket_of(namespace)
    value = (now_ms & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 62) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_id(text: str) -> bool:
    """Return whether a text is written like an id of an entry.

    The UUIDs that stand for none and all are not (RFC 9562).
    """
    return _ID.fullmatch(text) is not None


def first_id(now_ms: int) -> str:
    """Return a text that sorts before the ids created at this time or later, and after all earlier ones."""
    digits = f"{now_ms & (1 << 48) - 1:012x}"
    return f"{digits[:8]}-{digits[8:]}"


@lru_cache(BUCKETS)
def bucket_of(namespace: str) -> int:
    """Return the bucket of a namespace, from 0 to 1,023: the last 10 bits of the ids created in it."""
    digest = hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[-2:], "big") % BUCKETS
