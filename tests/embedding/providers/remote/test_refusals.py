from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.embedding.providers.remote.refusals import (
    LONGEST_S,
    go_duration_s,
    retry_after_s,
    retry_delay_s,
)

# On a busy machine, the duration of an example means nothing.
NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW = datetime(2026, 11, 22, 4, 0, tzinfo=UTC).timestamp()
NAMES = [
    "retry-after-ms",
    "retry-after",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-remaining-tokens",
]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20),
        ({"retry-after": "Sun, 22 Nov 2026 04:02:00 GMT"}, 120),
        ({"retry-after": "Sunday, 22-Nov-26 04:02:00 GMT"}, 120),
        ({"retry-after": "Sun Nov 22 04:02:00 2026"}, 120),
        ({"retry-after": "Sun, 22 Nov 2026 03:00:00 GMT"}, 0),
        ({"retry-after": "Sun, 22 Nov 2099 03:00:00 GMT"}, LONGEST_S),
        ({"retry-after": "9" * 100}, LONGEST_S),
        ({"retry-after": "9" * 1_000}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": ""}, None),
        ({"x-ratelimit-reset-tokens": "1m7.5s"}, 67.5),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset": "30"}, 30),
        ({"x-ratelimit-reset": str(round(NOW) + 45)}, 45),
        ({"x-ratelimit-reset": "later"}, None),
        ({"retry-after": "3", "x-ratelimit-reset-tokens": "6m0s"}, 3),
    ],
)
def test_every_form_of_a_requested_pause_is_understood(
    headers: Mapping[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, NOW) == seconds


def test_only_exhausted_limits_count() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "8s",
        "x-ratelimit-remaining-tokens": "149000",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert retry_after_s(headers, NOW) == 8


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("20ms", 0.02),
        ("1h2m3.5s", 3_723.5),
        (".5s", 0.5),
        ("1.s", 1),
        ("250µs", 0.00025),
        ("250μs", 0.00025),
        ("7ns", 7e-9),
        ("", None),
        ("5", None),
        ("s", None),
        ("1 s", None),
        ("1s!", None),
        ("-1s", None),
        ("1d", None),
        (".s", None),
        ("1s" * 65, None),
    ],
)
def test_durations_in_gos_format(text: str, seconds: float | None) -> None:
    assert go_duration_s(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        ({"error": {"details": [{"reason": "x"}, {"@type": "…RetryInfo", "retryDelay": "34.07s"}]}}, 34.07),
        ({"error": {"details": [{"retryDelay": "99999999s"}]}}, LONGEST_S),
        ({"error": {"details": [{"retryDelay": 3}, None, "x"]}}, None),
        ({"error": {"details": {}}}, None),
        ({"error": "so sorry"}, None),
        ([], None),
        (None, None),
    ],
)
def test_googles_retry_info_is_read_in_seconds(reply: Any, seconds: float | None) -> None:
    assert retry_delay_s(reply) == seconds


header_values = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.hmsµnu -+eE:,GMT"),
    st.from_regex(r"[0-9]{1,40}(\.[0-9]{1,5})?", fullmatch=True),
    st.datetimes(timezones=st.just(UTC)).map(lambda when: format_datetime(when, usegmt=True)),
)


@NO_DEADLINE
@given(st.dictionaries(st.sampled_from(NAMES), header_values), st.floats(0, 4e9))
def test_no_header_raises_or_pauses_forever(headers: dict[str, str], now: float) -> None:
    seconds = retry_after_s(headers, now)
    assert seconds is None or 0 <= seconds <= LONGEST_S


@NO_DEADLINE
@given(st.integers(0, 86_400))
def test_seconds_and_the_equivalent_date_agree(seconds: int) -> None:
    date = format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)
    assert retry_after_s({"retry-after": date}, NOW) == retry_after_s({"retry-after": str(seconds)}, NOW)


@NO_DEADLINE
@given(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int, ms: int) -> None:
    text = f"{hours}h{minutes}m{seconds}s{ms}ms"
    assert go_duration_s(text) == pytest.approx(3_600 * hours + 60 * minutes + seconds + ms / 1_000)
