from __future__ import annotations

import pytest

from benchmarks.timing import interleaved_ms, median, percentile


def test_percentiles_are_interpolated_and_need_no_order() -> None:
    assert median([3, 1, 2]) == 2
    assert median([1, 2]) == 1.5
    assert percentile(list(range(101)), 95) == pytest.approx(95)
    assert percentile([7], 95) == 7


async def test_actions_take_turns_and_each_round_begins_with_another() -> None:
    done: list[str] = []

    async def first() -> None:
        done.append("a")

    async def second() -> None:
        done.append("b")

    times = await interleaved_ms([first, second], rounds=2, warm_up=1)
    assert done == ["a", "b", "b", "a", "a", "b"]
    assert [len(kept) for kept in times] == [2, 2]
