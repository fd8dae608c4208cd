"""Reads JSON of strangers: what it says, or None. No I/O."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any


def json_value(data: bytes | str) -> Any:
    """Return the value; None for null, and for what is not JSON, or nested too deep."""
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def json_object(data: bytes | str) -> dict[str, Any] | None:
    """Return the object; None if it is none."""
    value = json_value(data)
    return value if isinstance(value, dict) else None


def text_in(value: dict[str, Any], *names: str) -> str | None:
    """Return the first of these members that is a text and not empty."""
    found = (value.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each.strip()), None)


def texts_in(value: Any) -> list[str]:
    """Return the texts of a list, which may be given as JSON; empty for anything else."""
    listed = json_value(value) if isinstance(value, str) else value
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def time_ms(value: Any) -> int | None:
    """Return a time in milliseconds: seconds or milliseconds since the epoch, or ISO 8601 (UTC if without
    a zone); None for anything else.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        ms = value if abs(value) > 1e11 else value * 1000
        return int(ms) if abs(ms) < 1e15 else None  # false for NaN, too
    try:
        moment = datetime.fromisoformat(str(value).strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
