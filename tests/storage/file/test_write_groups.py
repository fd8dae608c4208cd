from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import StorageClosed
from agentctx.storage.file.commit import CompletedWrite, FailedWrite
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.write_groups import GROUP_GAP_S, GROUP_WAIT_S, MAX_GROUP, GroupWindow, WriteGroups


def write(connection: Connection) -> int:
    return connection.total_changes


async def test_a_group_is_taken_in_order_of_arrival_up_to_a_limit() -> None:
    groups = WriteGroups()
    futures = [groups.add(write) for _ in range(MAX_GROUP + 1)]
    taken = groups.take()
    assert [each.future for each in taken] == futures[:MAX_GROUP]
    assert len(groups) == 1


async def test_a_lone_caller_does_not_wait() -> None:
    groups = WriteGroups()
    groups.add(write)
    assert groups.starts_or_completes()
    assert groups.remaining_s() <= 0


async def test_as_many_writes_are_expected_as_came_around_the_last_commit() -> None:
    groups = WriteGroups()
    groups.add(write)
    groups.take()
    groups.committed(3)
    groups.add(write)
    assert groups.starts_or_completes()
    groups.add(write)
    assert not groups.starts_or_completes()
    groups.add(write)
    assert groups.starts_or_completes()


async def test_each_refused_caller_gets_its_own_error() -> None:
    groups = WriteGroups()
    futures = [groups.add(write) for _ in range(2)]
    groups.refuse_all(lambda: StorageClosed("closed"))
    first, second = (future.exception() for future in futures)
    assert isinstance(first, StorageClosed)
    assert isinstance(second, StorageClosed)
    assert first is not second
    assert not groups


async def test_a_cancelled_caller_is_skipped() -> None:
    groups = WriteGroups()
    cancelled, waiting = groups.add(write), groups.add(write)
    cancelled.cancel()
    for each in groups.take():
        each.answer(CompletedWrite("result"))
    assert await waiting == "result"
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_failed_write_raises_for_its_caller() -> None:
    groups = WriteGroups()
    future = groups.add(write)
    groups.take()[0].answer(FailedWrite(StorageClosed("no")))
    with pytest.raises(StorageClosed, match="no"):
        await future


class TestGroupWindow:
    def test_a_lone_caller_is_never_delayed(self) -> None:
        window = GroupWindow()
        for now in (1.0, 2.0, 3.0):
            assert window.closes_at(waiting=1, first=now, last=now) <= now
            window.committed(members=1, arrived=0)

    def test_waits_for_as_many_as_the_last_commit_saw(self) -> None:
        window = GroupWindow()
        window.committed(members=1, arrived=15)
        assert window.closes_at(waiting=15, first=1.0, last=1.001) > 1.001
        assert window.closes_at(waiting=16, first=1.0, last=1.001) <= 1.001

    def test_a_lone_caller_is_delayed_at_most_once_after_others_stop(self) -> None:
        window = GroupWindow()
        window.committed(members=16, arrived=0)
        assert window.closes_at(waiting=1, first=1.0, last=1.0) == 1.0 + GROUP_GAP_S
        window.committed(members=1, arrived=0)
        assert window.closes_at(waiting=1, first=2.0, last=2.0) <= 2.0

    def test_expectation_falls_when_fewer_come(self) -> None:
        window = GroupWindow()
        window.committed(members=16, arrived=0)
        for _ in range(10):
            window.committed(members=2, arrived=0)
        assert window.expected == 2

    @given(
        seen=st.lists(st.tuples(st.integers(1, MAX_GROUP), st.integers(0, 1_000)), max_size=20),
        waiting=st.integers(1, 1_000),
        first=st.floats(0, 1e6),
        spread=st.floats(0, 1),
    )
    def test_nobody_waits_longer_than_the_limit(
        self, seen: list[tuple[int, int]], waiting: int, first: float, spread: float
    ) -> None:
        window = GroupWindow()
        for members, arrived in seen:
            window.committed(members=members, arrived=arrived)
        assert 1 <= window.expected <= MAX_GROUP
        closes = window.closes_at(waiting=waiting, first=first, last=first + spread)
        assert closes <= first + max(GROUP_WAIT_S, spread)
        if waiting >= MAX_GROUP:
            assert closes <= first + spread
