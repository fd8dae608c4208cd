"""Entry ids: UUIDv7 (RFC 9562), which sort by creation time and carry a bucket of their namespace."""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache
from typing import Final

BUCKETS: Final = 1_024
"""Number of buckets: requests that know only an entry's id can be routed to up to as many shards."""


def new_id(now_ms: int, namespace: str) -> str:
    """Return an id of 48 bits of milliseconds since the epoch, 64 random bits and the namespace's bucket."""
    random = secrets.randbits(64) * BUCKETS + bucket_of(namespace)
    value = (now_ms & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 62) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def first_id(now_ms: int) -> str:
    """Return a text that sorts before the ids created at this time or later, and after all earlier ones."""
    digits = f"{now_ms & (1 << 48) - 1:012x}"
    return f"{digits[:8]}-{digits[8:]}"


@lru_cache(BUCKETS)
def bucket_of(namespace: str) -> int:
    """Return the bucket of a namespace, from 0 to 1,023: the last 10 bits of the ids created in it."""
    digest = hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[-2:], "big") % BUCKETS
