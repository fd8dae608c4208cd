"""Times and durations as users write them. Internally, a time is milliseconds since the epoch, UTC."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from agentctx.errors import InvalidInput

Clock: TypeAlias = Callable[[], int]
"""Returns milliseconds since the epoch."""

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MIN_MS = -62_135_596_800_000
"""The first millisecond of the year 1, the earliest time that can be formatted."""
_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest that RFC 3339 can express."""
_MILLISECOND = timedelta(milliseconds=1)


def wall_clock() -> int:
    """Return the current time."""
    return time.time_ns() // 1_000_000


def parse_duration(text: str) -> int:
    """Parse `90s`, `15m`, `12h`, `30d` or `2w` into milliseconds. Raises `InvalidInput`."""
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        hint = "Write a number and s, m, h, d or w, like 30d."
        raise InvalidInput(f"Invalid duration {text[:40]!r}.", hint=hint)
    return int(match[1]) * _UNITS_MS[match[2]]


def parse_time(text: str, *, now: int) -> int:
    """Parse an RFC 3339 time, a date, or an age such as `7d`, relative to `now`. Raises `InvalidInput`."""
    if _DURATION.fullmatch(text):
        return now - parse_duration(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"Invalid time {text[:40]!r}.", hint="Use 2026-11-21, 2026-11-21T08:00:00Z or an age like 7d."
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND  # integer arithmetic: float seconds lose a millisecond


def lacks_zone(text: str) -> bool:
    """Whether this is the time of a day without a zone, which `parse_time` takes as UTC."""
    try:
        return ":" in text and datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


@lru_cache(maxsize=4_096)
def format_time(ms: int) -> str:
    """Format as RFC 3339 in UTC: `2026-11-21T08:00:00.000Z`. Times are clamped to the years 1 to 9999."""
    moment = _EPOCH + max(_MIN_MS, min(ms, _MAX_MS)) * _MILLISECOND
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_date(ms: int) -> str:
    """Format the day in UTC: `2026-11-21`."""
    return date.fromordinal(_EPOCH_DAY + max(_MIN_MS, min(ms, _MAX_MS)) // _UNITS_MS["d"]).isoformat()


def compact_time(ms: int) -> str:
    """Format a time for use in a file name: `20261122T053000000Z`."""
    return re.sub(r"[-:.]", "", format_time(ms))
