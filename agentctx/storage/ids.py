"""Entry ids: UUIDv7 (RFC 9562), which sort by creation time."""

from __future__ import annotations

import secrets
from uuid import UUID


def uuid7(now_ms: int) -> str:
    """Return an id of 48 bits of milliseconds since the epoch and 74 random bits."""
    random = secrets.randbits(74)
    value = (now_ms & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 62) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    return str(UUID(int=value))
