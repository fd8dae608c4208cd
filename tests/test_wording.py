from __future__ import annotations

import pytest

from agentctx.wording import age, counted, listed, size


def test_counts() -> None:
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert counted(3, "entry", "entries") == "3 entries"


def test_long_lists_are_cut() -> None:
    assert listed("abcd") == "a, b, c, d"
    assert listed("abcdef", separator="; ") == "a; b; c; d; and 2 more"
    assert listed([]) == ""


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (5_000, "5 s"), (600_000, "10 min"), (10_800_000, "3 h"), (345_600_000, "4 d")],
)
def test_ages(ms: int, text: str) -> None:
    assert age(ms) == text


def test_sizes() -> None:
    assert [size(n) for n in (0, 12_300_000, 3_400_000_000)] == ["0 MB", "12 MB", "3.4 GB"]
