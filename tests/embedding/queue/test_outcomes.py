from __future__ import annotations

import asyncio

from agentctx.embedding.queue.outcomes import REMEMBERED, JobOutcomes, Outcome
from tests.embedding.queue.manual_timer import ManualTimer

DONE, BURIED = Outcome.DONE, Outcome.BURIED


async def test_waits_until_the_last_job_has_ended(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    waiting = asyncio.ensure_future(outcomes.wait([1, 2], None))
    outcomes.record([1], DONE)
    await timer.settle()
    assert not waiting.done()
    outcomes.record([2], BURIED)
    assert await timer.run(waiting) == {1: DONE, 2: BURIED}


async def test_a_timeout_returns_the_jobs_that_have_ended(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    waiting = asyncio.ensure_future(outcomes.wait([1, 2], 3))
    await timer.settle()
    outcomes.record([1], DONE)
    await timer.advance(2_999)
    assert not waiting.done()
    await timer.advance(1)
    assert await timer.run(waiting) == {1: DONE}


async def test_waiting_for_an_ended_job_returns_immediately(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    outcomes.record([1], DONE)
    assert await timer.run(outcomes.wait([1], None)) == {1: DONE}


async def test_waiting_for_no_jobs_returns_immediately(timer: ManualTimer) -> None:
    assert await timer.run(JobOutcomes(timer).wait([], None)) == {}


async def test_several_callers_may_wait_for_one_job(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    waiting = [asyncio.ensure_future(outcomes.wait([1], None)) for _ in range(3)]
    await timer.settle()
    outcomes.record([1], DONE)
    assert [await timer.run(one) for one in waiting] == [{1: DONE}] * 3


async def test_a_reopened_job_is_waited_for_again(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    outcomes.record([1], BURIED)
    outcomes.reopen([1])
    assert await timer.run(outcomes.wait([1], 1)) == {}


async def test_closing_releases_all_waiters(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    waiting = asyncio.ensure_future(outcomes.wait([1], None))
    await timer.settle()
    outcomes.close()
    assert await timer.run(waiting) == {}
    assert await timer.run(outcomes.wait([1], None)) == {}


async def test_the_memory_of_ended_jobs_is_bounded(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    waiting = asyncio.ensure_future(outcomes.wait([1, 10**9], None))
    await timer.settle()
    outcomes.record(range(1, REMEMBERED + 2), DONE)
    assert await timer.run(outcomes.wait([1], 1)) == {}
    assert await timer.run(outcomes.wait([2], 1)) == {2: DONE}
    outcomes.record([10**9], DONE)
    assert await timer.run(waiting) == {1: DONE, 10**9: DONE}


async def test_waiters_that_time_out_are_forgotten(timer: ManualTimer) -> None:
    outcomes = JobOutcomes(timer)
    await timer.run(outcomes.wait([1, 2], 1))
    assert not outcomes._waiters
