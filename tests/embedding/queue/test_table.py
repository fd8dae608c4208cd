from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue.table import JobTable, StorageAbandoned
from agentctx.errors import DeadlineExceeded, StorageFailed, StorageFull
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import SPACE, FailingCalls, MemoryJobs
from tests.embedding.queue.scripted_provider import good_reply
from tests.embedding.queue.seeded import seeded


@pytest.fixture
def table(storage: MemoryJobs, timer: ManualTimer) -> JobTable:
    return JobTable(storage, QueueSettings(), space=lambda: SPACE, timer=timer, rng=seeded(1))


async def test_a_failing_storage_is_retried_until_it_works(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer, logs: list[MutableMapping[str, Any]]
) -> None:
    jobs = storage.save("a", "b")
    storage.fault = FailingCalls(StorageFull("disk full"), ("complete",), 7)
    task = asyncio.ensure_future(table.complete(jobs, good_reply(["a", "b"])))
    await timer.until(lambda: table.reason == "disk full")
    assert await timer.run(task) == 2
    assert table.reason is None
    assert [entry["attempts"] for entry in logs] == list(range(7))


async def test_a_slow_storage_is_retried_until_it_answers(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer
) -> None:
    storage.fault = FailingCalls(DeadlineExceeded("reading took too long"), ("next_due",), 3)
    assert await timer.run(table.next_due()) is None
    assert storage.operations.count("next_due") == 4


async def test_retries_are_at_most_ten_seconds_apart(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer
) -> None:
    storage.fault = FailingCalls(StorageFailed("locked"), ("claim",), 1_000)
    started = timer.now()
    await timer.run(table.claim(1, ()))
    assert timer.now() - started <= 1_000 * 10_000
    assert storage.operations.count("claim") == 1_001


async def test_after_giving_up_a_failure_is_final(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer
) -> None:
    (job,) = storage.save("a")
    storage.fault = FailingCalls(StorageFailed("gone"), ("bury",), 10**9)
    waiting = asyncio.ensure_future(table.bury(job, "bad"))
    await timer.until(lambda: table.reason is not None)
    table.give_up()
    await timer.until(waiting.done, limit_ms=0)
    assert isinstance(waiting.exception(), StorageAbandoned)
    with pytest.raises(StorageAbandoned):
        await timer.run(table.bury(job, "bad"), limit_ms=0)


async def test_a_bug_is_not_retried(table: JobTable, storage: MemoryJobs, timer: ManualTimer) -> None:
    def bug(operation: str) -> None:
        raise ZeroDivisionError

    storage.fault = bug
    with pytest.raises(ZeroDivisionError):
        await timer.run(table.claim(1, ()))


async def test_claims_are_leased(table: JobTable, storage: MemoryJobs, timer: ManualTimer) -> None:
    jobs = storage.save("a", "b", "c")
    assert await timer.run(table.claim(2, ())) == jobs[:2]
    assert await timer.run(table.claim(2, ())) == jobs[2:]
    assert await timer.run(table.next_due()) == timer.now() + 120_000
    await timer.run(table.release_leases())
    assert await timer.run(table.claim(9, {jobs[0].id})) == jobs[1:]


async def test_a_job_that_became_due_since_the_claim_is_not_missed(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer
) -> None:
    due = timer.now() + 1
    await storage.postpone(storage.save("a"), not_before=due, error="down")
    assert await timer.run(table.claim(8, ())) == []
    storage.fault = FailingCalls(StorageFailed("locked"), ("next_due",), 3)
    assert await timer.run(table.next_due()) == due
    assert timer.now() > due


async def test_a_job_postponed_by_a_clock_years_ahead_is_due(
    table: JobTable, storage: MemoryJobs, timer: ManualTimer
) -> None:
    jobs = storage.save("a")
    year_2090 = 3_786_912_000_000
    await storage.postpone(jobs, not_before=year_2090, error="down")
    assert await timer.run(table.claim(8, ())) == []
    assert await timer.run(table.next_due()) == timer.now()
    assert [job.text for job in await timer.run(table.claim(8, ()))] == ["a"]
    assert storage.rows[jobs[0].id].leased_until == timer.now() + 120_000


async def test_a_pause_of_a_day_is_honoured(table: JobTable, storage: MemoryJobs, timer: ManualTimer) -> None:
    jobs = storage.save("a")
    tomorrow = timer.now() + 86_400_000
    await storage.postpone(jobs, not_before=tomorrow, error="quota")
    assert await timer.run(table.next_due()) == tomorrow
    assert await timer.run(table.claim(8, ())) == []


async def test_jobs_of_another_space_are_never_claimed(storage: MemoryJobs, timer: ManualTimer) -> None:
    other = JobTable(storage, QueueSettings(), space=lambda: SPACE + 1, timer=timer, rng=seeded(1))
    [job] = storage.save("a")
    assert await timer.run(other.claim(10, ())) == []
    assert await timer.run(other.next_due()) is None
    every = JobTable(storage, QueueSettings(), space=lambda: None, timer=timer, rng=seeded(1))
    assert await timer.run(every.claim(10, ())) == [job]
