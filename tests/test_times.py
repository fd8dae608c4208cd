from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentctx.errors import InvalidInput
from agentctx.times import format_time, lacks_zone, parse_duration, parse_time

YEAR_1_MS = -62_135_596_800_000
YEAR_9999_MS = 253_402_300_799_999


@given(st.integers(YEAR_1_MS, YEAR_9999_MS))
@example(2_176_285_646_377)
@example(75_769_145_627_991)
def test_a_time_is_read_as_it_was_written(ms: int) -> None:
    assert parse_time(format_time(ms), now=0) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1_790_000_000_001, "2026-09-21T14:13:20.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (YEAR_1_MS - 1, "0001-01-01T00:00:00.000Z"),
        (YEAR_9999_MS + 1, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_written_within_the_calendar(ms: int, text: str) -> None:
    assert format_time(ms) == text


def test_an_age_beyond_the_calendar_can_be_written() -> None:
    assert format_time(parse_time("999999999w", now=0)) == "0001-01-01T00:00:00.000Z"


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("15m", 900_000), ("2w", 1_209_600_000)])
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "0d", "3", "3y", "-3d", "3.5d", " 3d", "3d\n", "\u0663d", "\uff13d", "1234567890s"]
)
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_duration(text)
    with pytest.raises(InvalidInput):
        parse_time(text, now=0)


@pytest.mark.parametrize(
    "text",
    [
        "\u0662\u0660\u0662\u0666-\u0661\u0661-\u0662\u0661",
        "2026-11-3\u0661",
        "2026-11-21T0\u0668:00:00Z",
        "yesterday",
    ],
)
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_time(text, now=0)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("2026-11-21T08:00", True),
        ("2026-11-21 08:00:01", True),
        ("2026-11-21T08:00Z", False),
        ("2026-11-21T08:00+02:00", False),
        ("2026-11-21", False),
        ("7d", False),
        ("nonsense: 8", False),
    ],
)
def test_a_time_of_a_day_without_a_zone_is_noticed(text: str, lacks: bool) -> None:
    assert lacks_zone(text) is lacks
