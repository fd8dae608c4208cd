"""Formatting of counts, ages, sizes and lists in findings."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, one: str, many: str = "") -> str:
    """Return the count with the singular or plural noun: `1 job`, `2 jobs`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(parts: Iterable[str], *, most: int = 4, separator: str = ", ") -> str:
    """Join the first `most` parts and say how many more there are."""
    all_parts = list(parts)
    more = len(all_parts) - most
    return separator.join(all_parts[:most]) + (f"{separator}and {more} more" if more > 0 else "")


def age(ms: float) -> str:
    """Format milliseconds as `5 s`, `3 min`, `2 h` or `4 d`."""
    seconds = ms / 1_000
    for limit, divisor, unit in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def size(octets: int) -> str:
    """Format bytes as `12 MB` or `3.4 GB`."""
    return f"{octets / 1e9:.1f} GB" if octets >= 1e9 else f"{octets / 1e6:.0f} MB"
