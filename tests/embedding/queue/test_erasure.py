"""Texts of erased entries leave the queue: immediately if queued, within seconds if at the provider."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentctx.embedding.queue.batch import Batcher
from agentctx.embedding.queue.call import RECALL_AFTER_MS
from agentctx.embedding.queue.job_buffer import JobBuffer
from agentctx.embedding.queue.outcomes import Outcome
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.records import Job
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.conftest import QueueWorld
from tests.embedding.queue.memory_jobs import make_job

HOUR = 3_600_000


def texts_in_jobs(entry: str) -> list[str]:
    """Return the entry's texts from all jobs in this process."""
    gc.collect()
    jobs = [each for each in gc.get_objects() if isinstance(each, Job)]
    return [job.text for job in jobs if job.entry == entry]


@pytest.mark.parametrize("where", ["queued", "collected", "refused"])
async def test_a_waiting_lane_drops_the_text_immediately(world: QueueWorld, where: str) -> None:
    queue = world.queue(batch_size=4)
    queue.pause("the provider is away")
    queue.start()
    await world.timer.settle()
    world.storage.save(
        *(f"other {number}" for number in range({"queued": 6, "collected": 1, "refused": 0}[where]))
    )
    (gone,) = world.storage.save("a secret wish")
    queue.enqueue([row.job for row in world.storage.rows.values()])
    await world.timer.settle()
    if where == "refused":
        queue._batcher.put_first([queue._batcher.take(1)])
    entry, job_id = gone.entry, gone.id
    assert texts_in_jobs(entry)

    world.storage.delete(gone)
    queue.drop([entry])
    del gone
    assert texts_in_jobs(entry) == []
    assert await queue.wait_settled([job_id]) == {job_id: Outcome.DONE}
    queue.resume()
    await world.timer.run(queue.idle())
    assert "a secret wish" not in world.provider.texts
    assert len(world.provider.texts) == len(world.storage.vectors)


async def test_a_hanging_call_is_abandoned_and_the_other_texts_are_sent_again(world: QueueWorld) -> None:
    queue = world.queue(batch_size=3, call_timeout_s=60)
    queue.start()
    await world.timer.run(queue.idle(), limit_ms=0)
    world.provider.gate.clear()
    jobs = world.storage.save("one", "a secret wish", "three")
    queue.enqueue(jobs)
    await world.timer.until(lambda: world.provider.hanging == 1)

    world.storage.delete(jobs[1])
    queue.drop([jobs[1].entry])
    await world.timer.advance(RECALL_AFTER_MS - 1)
    assert world.provider.hanging == 1
    await world.timer.advance(1)
    world.provider.calls.clear()
    entry = jobs.pop(1).entry
    assert texts_in_jobs(entry) == []
    world.provider.gate.set()
    await world.timer.run(queue.idle())
    assert set(world.provider.texts) <= {"one", "three"}
    assert set(world.storage.vectors) == {job.chunk for job in jobs}
    assert (queue.status().state, queue.status().reason) == ("ok", None), "nothing failed"


async def test_a_call_that_ends_in_time_is_not_repeated(world: QueueWorld) -> None:
    queue = world.queue(batch_size=2)
    queue.start()
    await world.timer.run(queue.idle(), limit_ms=0)
    world.provider.gate.clear()
    kept, gone = world.storage.save("one", "a secret wish")
    queue.enqueue([kept, gone])
    await world.timer.until(lambda: world.provider.hanging == 1)
    world.storage.delete(gone)
    queue.drop([gone.entry])
    await world.timer.advance(RECALL_AFTER_MS - 1)
    world.provider.gate.set()
    await world.timer.advance(HOUR)
    assert world.provider.sizes == [2]
    assert set(world.storage.vectors) == {kept.chunk}


async def test_an_erased_text_whose_call_fails_is_not_kept_for_a_retry(world: QueueWorld) -> None:
    queue = world.queue(batch_size=2)
    queue.start()
    await world.timer.run(queue.idle(), limit_ms=0)
    world.provider.gate.clear()
    jobs = world.storage.save("one", "a secret wish")
    queue.enqueue(jobs)
    await world.timer.until(lambda: world.provider.hanging == 1)
    gone = jobs.pop()
    entry = gone.entry
    world.storage.delete(gone)
    queue.drop([entry])
    del gone
    queue.pause("so that nothing is sent again")
    world.provider.calls.clear()
    world.provider.answer = _refuse
    world.provider.gate.set()
    await world.timer.advance(1_000)
    assert texts_in_jobs(entry) == []


async def test_an_erasure_that_is_rolled_back_loses_no_job(world: QueueWorld) -> None:
    """A cancelled caller does not wait for its deletion, which may still be rolled back."""
    queue = world.queue()
    queue.pause("the provider is away")
    queue.start()
    await world.timer.settle()
    (job,) = world.storage.save("still there")
    queue.enqueue([job])
    await world.timer.settle()
    queue.drop([job.entry])
    queue.resume()
    await world.timer.advance(HOUR)
    assert set(world.storage.vectors) == {job.chunk}


def test_a_claim_may_return_jobs_from_before_an_erasure() -> None:
    buffer = JobBuffer(capacity=8, low_water=2)
    buffer.begin_claim()
    assert buffer.drop(["entry-1"]) == ()
    buffer.end_claim([make_job(1), make_job(2)], asked=8)
    assert list(buffer.known) == [2]
    buffer.begin_claim()
    buffer.end_claim([make_job(1)], asked=8)
    assert list(buffer.known) == [2, 1]


def test_all_texts_of_an_entry_leave_a_batch_and_the_others_keep_their_order() -> None:
    batcher = Batcher(size=8)
    first, second, third, fourth = (make_job(number) for number in range(1, 5))
    older = replace(second, id=9)
    for job in (first, older, third):
        batcher.add(job)
    batcher.put_first([(second,), (fourth, second)])
    assert batcher.drop({second.entry}) == (older, second, second)
    assert (batcher.take(8), batcher.take(8)) == ((fourth,), (first, third))


def _refuse(_texts: Sequence[str]) -> Vectors:
    raise ProviderFailed("refused", disposition=Disposition.SPLIT)
