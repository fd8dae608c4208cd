from __future__ import annotations

import pytest

from agentctx.wire.wording import counted, duration, listed, size


def test_counts() -> None:
    assert [counted(n, "job") for n in (0, 1, 2_000)] == ["0 jobs", "1 job", "2,000 jobs"]
    assert counted(3, "entry", "entries") == "3 entries"


def test_long_lists_are_cut() -> None:
    assert listed("abcd") == "a, b, c, d"
    assert listed("abcdef", separator="; ") == "a; b; c; d; and 2 more"
    assert listed([]) == ""


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (61, "61 s"),
        (300, "5 min"),
        (10_800, "3 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_are_human_readable(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_sizes() -> None:
    assert [size(n) for n in (0, 12_300_000, 3_400_000_000)] == ["0 MB", "12 MB", "3.4 GB"]
