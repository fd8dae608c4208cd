"""Entry ids: UUIDv7 (RFC 9562), so that ids sort by the time they were made."""

from __future__ import annotations

import secrets
from uuid import UUID


def uuid7(now_ms: int) -> str:
    """48 bits of milliseconds since the epoch, then 74 random bits."""
    random = secrets.randbits(74)
    value = (now_ms & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 62) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    return str(UUID(int=value))
