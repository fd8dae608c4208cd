from __future__ import annotations

import asyncio

import pytest

from agentctx.errors import StorageClosed
from agentctx.sqlite.commit import Done, FailedWrite
from agentctx.sqlite.group_window import MAX_GROUP
from agentctx.sqlite.reserve import Write
from agentctx.sqlite.write_groups import WriteGroups


def write() -> Write:
    return Write(lambda connection: connection.total_changes)


async def test_a_group_is_taken_in_the_order_of_arrival_and_has_a_limit() -> None:
    groups = WriteGroups()
    futures = [groups.add(write()) for _ in range(MAX_GROUP + 1)]
    taken = groups.take()
    assert [each.future for each in taken] == futures[:MAX_GROUP]
    assert len(groups) == 1


async def test_a_caller_alone_waits_for_nobody() -> None:
    groups = WriteGroups()
    groups.add(write())
    assert groups.starts_or_completes()
    assert groups.remaining_s() <= 0


async def test_as_many_as_came_around_the_last_commit_are_expected() -> None:
    groups = WriteGroups()
    groups.add(write())
    groups.take()
    groups.committed(3)
    groups.add(write())
    assert groups.starts_or_completes()
    groups.add(write())
    assert not groups.starts_or_completes()
    groups.add(write())
    assert groups.starts_or_completes()


async def test_each_caller_is_refused_with_an_error_of_its_own() -> None:
    groups = WriteGroups()
    futures = [groups.add(write()) for _ in range(2)]
    groups.refuse_all(lambda: StorageClosed("closed"))
    first, second = (future.exception() for future in futures)
    assert isinstance(first, StorageClosed)
    assert isinstance(second, StorageClosed)
    assert first is not second
    assert not groups


async def test_a_cancelled_caller_is_passed_over() -> None:
    groups = WriteGroups()
    cancelled, waiting = groups.add(write()), groups.add(write())
    cancelled.cancel()
    for each in groups.take():
        each.answer(Done("result"))
    assert await waiting == "result"
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_failed_write_raises_for_its_caller() -> None:
    groups = WriteGroups()
    future = groups.add(write())
    groups.take()[0].answer(FailedWrite(StorageClosed("no")))
    with pytest.raises(StorageClosed, match="no"):
        await future
