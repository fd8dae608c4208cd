"""Formatting of counts, durations, sizes and lists for people."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, one: str, many: str = "") -> str:
    """Return the count with the singular or plural noun: `1 job`, `2,000 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(parts: Iterable[str], *, most: int = 4, separator: str = ", ") -> str:
    """Join the first `most` parts and say how many more there are."""
    all_parts = list(parts)
    more = len(all_parts) - most
    return separator.join(all_parts[:most]) + (f"{separator}and {more} more" if more > 0 else "")


def duration(seconds: float) -> str:
    """Return seconds in readable form: `0.4 s`, `12 s`, `5 min`, `3 h`, `2 d`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def size(octets: int) -> str:
    """Format bytes as `12 MB` or `3.4 GB`."""
    return f"{octets / 1e9:.1f} GB" if octets >= 1e9 else f"{octets / 1e6:.0f} MB"


def held_by_backups(backups: int, until: str | None) -> str | None:
    """Say how many automatic backups hold a forgotten text, and until when; None if none does."""
    if not backups:
        return None
    lasts = f"until about {until}" if until else "until somebody removes them"
    held = f"{counted(backups, 'automatic backup')} may hold it {lasts}"
    return f"{held}; `agentctx forget --rewrite` replaces them"
