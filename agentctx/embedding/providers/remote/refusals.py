"""Parses a provider's refusal: its codes, and how long to back off. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

LONGEST_S: Final = 86_400.0
"""Longer pauses are cut to this: daily quotas are honoured, and nonsense cannot stop the queue forever."""

_CODE = re.compile(r"[A-Za-z]+(_[A-Za-z]+)*")
_LONGEST_CODE: Final = 48
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")
_GO_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_GO_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0}
_RATE_LIMITS = ("", "-requests", "-tokens")
_EPOCH_BEGINS_S = 1e9
"""A bare number this large in a reset header is a Unix time, not a delay."""
_LONGEST_VALUE = 128
"""No genuine header is longer; this also bounds the work of parsing."""


def requested_pause_s(status: int, headers: Mapping[str, str], reply: Any, now: float) -> float | None:
    """Return the seconds to wait from the headers, else from the body `reply`; None if neither says."""
    # Every answer reports rate limits; only a 429 is caused by them.
    hints = headers
    if status != 429:
        hints = {name: value for name, value in headers.items() if not name.startswith("x-ratelimit")}
    from_headers = retry_after_s(hints, now)
    return retry_delay_s(reply) if from_headers is None else from_headers


def codes_of(reply: Any) -> list[str]:
    """Return the provider's error codes. Its prose is left out because it may quote the request."""
    error = reply.get("error", reply) if isinstance(reply, dict) else None
    if not isinstance(error, dict):
        return []
    details = error.get("details")
    parts = details if isinstance(details, list) else []
    reasons = [part.get("reason") for part in parts if isinstance(part, dict)]
    named = dict.fromkeys(
        code
        for code in (error.get("code"), error.get("type"), error.get("status"), *reasons)
        if isinstance(code, str)
    )
    return [code for code in named if len(code) <= _LONGEST_CODE and _CODE.fullmatch(code)]


def json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait, 0 to `LONGEST_S`; None if the headers do not say or cannot be parsed.

    `retry-after-ms` wins over `retry-after` (seconds or an HTTP date), which wins over `x-ratelimit-reset…`
    (Go durations like `1m7.5s`, seconds, or a Unix time). Names are lower case; `now` is in Unix seconds.
    """
    for wish in _requested_pauses_s(headers, now):
        if wish is not None:
            return min(max(wish, 0.0), LONGEST_S)
    return None


def retry_delay_s(reply: Any) -> float | None:
    """Return the seconds to wait from the `RetryInfo` in a Google error's body; None if there is none."""
    error = reply.get("error") if isinstance(reply, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        seconds = go_duration_s(delay) if isinstance(delay, str) else None
        if seconds is not None:
            return min(seconds, LONGEST_S)
    return None


def go_duration_s(text: str) -> float | None:
    """Parse a Go duration into seconds: `6m0s`, `1h2m3.5s`, `20ms`, `0`. None for anything else."""
    if len(text) > _LONGEST_VALUE:
        return None
    if text == "0":
        return 0.0
    parts = list(_GO_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(float(part[1]) * _GO_UNITS_S[part[2]] for part in parts)


def _requested_pauses_s(headers: Mapping[str, str], now: float) -> Iterator[float | None]:
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    yield None if milliseconds is None else milliseconds / 1_000
    after = headers.get("retry-after", "").strip()
    yield _seconds(after)
    yield _until_date(after, now)
    yield _until_reset(headers, now)


def _seconds(text: str) -> float | None:
    text = text.strip()
    return float(text) if len(text) <= _LONGEST_VALUE and _SECONDS.fullmatch(text) else None


def _until_date(text: str, now: float) -> float | None:
    if not text or len(text) > _LONGEST_VALUE:
        return None
    try:
        date = parsedate_to_datetime(text)
        # A date without a zone is taken as GMT, like every HTTP date.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return the longest reset of the exhausted limits; of all limits, if none is reported exhausted."""
    known = {kind: _reset(headers.get(f"x-ratelimit-reset{kind}", "").strip(), now) for kind in _RATE_LIMITS}
    resets = {kind: reset for kind, reset in known.items() if reset is not None}
    used_up = [
        reset
        for kind, reset in resets.items()
        if headers.get(f"x-ratelimit-remaining{kind}", "").strip() == "0"
    ]
    return max(used_up or resets.values(), default=None)


def _reset(text: str, now: float) -> float | None:
    number = _seconds(text)
    if number is None:
        return go_duration_s(text)
    return number - now if number >= _EPOCH_BEGINS_S else number
