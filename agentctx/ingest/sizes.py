"""File sizes as people write them. Pure."""

from __future__ import annotations

import re

from agentctx.errors import InvalidInput

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]{0,3})")


def parse_size(text: str) -> int:
    """Bytes of `500`, `200kB`, `10MB`, `1.5 GiB`. Raises `InvalidInput`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise InvalidInput(
            f"Invalid size {text[:40]!r}.", hint="Use a number with kB, MB or GB, for example 10MB."
        )
    return int(float(match[1]) * _UNITS[match[2]])
