"""Texts of erased entries leave the queue: immediately if queued, within seconds if at the provider."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentctx.embedding.queue.batch import Batcher, QueuedJob
from agentctx.embedding.queue.call import RECALL_AFTER_MS
from agentctx.embedding.queue.job_buffer import JobBuffer
from agentctx.embedding.queue.outcomes import Outcome
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.records import Job
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.conftest import MakeQueue
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import MemoryJobs, make_job
from tests.embedding.queue.scripted_provider import ScriptedProvider

HOUR = 3_600_000


def texts_in_jobs(entry: str) -> list[str]:
    """Return the entry's texts from all jobs in this process."""
    gc.collect()
    jobs = [each for each in gc.get_objects() if isinstance(each, Job)]
    return [job.text for job in jobs if job.entry == entry]


@pytest.mark.parametrize("where", ["queued", "collected", "refused"])
async def test_a_waiting_lane_drops_the_text_immediately(
    where: str, make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(batch_size=4)
    queue.pause("the provider is away")
    queue.start()
    await timer.settle()
    storage.save(*(f"other {number}" for number in range({"queued": 6, "collected": 1, "refused": 0}[where])))
    (gone,) = storage.save("a secret wish")
    queue.enqueue([row.job for row in storage.rows.values()])
    await timer.settle()
    if where == "refused":
        queue._batcher.put_first([queue._batcher.take(1)])
    entry, job_id = gone.entry, gone.id
    assert texts_in_jobs(entry)

    storage.delete(gone)
    queue.drop([entry])
    del gone
    assert texts_in_jobs(entry) == []
    assert await queue.wait_settled([job_id]) == {job_id: Outcome.DONE}
    queue.resume()
    await timer.run(queue.idle())
    assert "a secret wish" not in provider.texts
    assert len(provider.texts) == len(storage.vectors)


async def test_a_hanging_call_is_abandoned_and_the_other_texts_are_sent_again(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(batch_size=3, call_timeout_s=60)
    queue.start()
    await timer.run(queue.idle(), limit_ms=0)
    provider.gate.clear()
    jobs = storage.save("one", "a secret wish", "three")
    queue.enqueue(jobs)
    await timer.until(lambda: provider.hanging == 1)

    storage.delete(jobs[1])
    queue.drop([jobs[1].entry])
    await timer.advance(RECALL_AFTER_MS - 1)
    assert provider.hanging == 1
    await timer.advance(1)
    provider.calls.clear()
    entry = jobs.pop(1).entry
    assert texts_in_jobs(entry) == []
    provider.gate.set()
    await timer.run(queue.idle())
    assert set(provider.texts) <= {"one", "three"}
    assert set(storage.vectors) == {job.chunk for job in jobs}
    assert queue.status().failed_calls == 0


async def test_a_call_that_ends_in_time_is_not_repeated(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(batch_size=2)
    queue.start()
    await timer.run(queue.idle(), limit_ms=0)
    provider.gate.clear()
    kept, gone = storage.save("one", "a secret wish")
    queue.enqueue([kept, gone])
    await timer.until(lambda: provider.hanging == 1)
    storage.delete(gone)
    queue.drop([gone.entry])
    await timer.advance(RECALL_AFTER_MS - 1)
    provider.gate.set()
    await timer.advance(HOUR)
    assert provider.sizes == [2]
    assert set(storage.vectors) == {kept.chunk}


async def test_an_erased_text_whose_call_fails_is_not_kept_for_a_retry(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(batch_size=2)
    queue.start()
    await timer.run(queue.idle(), limit_ms=0)
    provider.gate.clear()
    jobs = storage.save("one", "a secret wish")
    queue.enqueue(jobs)
    await timer.until(lambda: provider.hanging == 1)
    gone = jobs.pop()
    entry = gone.entry
    storage.delete(gone)
    queue.drop([entry])
    del gone
    queue.pause("so that nothing is sent again")
    provider.calls.clear()
    provider.answer = _refuse
    provider.gate.set()
    await timer.advance(1_000)
    assert texts_in_jobs(entry) == []


async def test_an_erasure_that_is_rolled_back_loses_no_job(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    """A cancelled caller does not wait for its deletion, which may still be rolled back."""
    queue = make_queue()
    queue.pause("the provider is away")
    queue.start()
    await timer.settle()
    (job,) = storage.save("still there")
    queue.enqueue([job])
    await timer.settle()
    queue.drop([job.entry])
    queue.resume()
    await timer.advance(HOUR)
    assert set(storage.vectors) == {job.chunk}


def test_a_claim_may_return_jobs_from_before_an_erasure() -> None:
    buffer = JobBuffer(capacity=8, low_water=2)
    buffer.begin_claim()
    assert buffer.drop(["entry-1"]) == ()
    buffer.end_claim([make_job(1), make_job(2)], asked=8, now=0)
    assert list(buffer.known) == [2]
    buffer.begin_claim()
    buffer.end_claim([make_job(1)], asked=8, now=0)
    assert list(buffer.known) == [2, 1]


def test_all_texts_of_an_entry_leave_a_batch_and_the_others_keep_their_order() -> None:
    batcher = Batcher(size=8, wait_ms=50)
    first, second, third, fourth = (make_job(number) for number in range(1, 5))
    older = replace(second, id=9)
    for job in (first, older, third):
        batcher.add(QueuedJob(job, 0))
    batcher.put_first([(second,), (fourth, second)])
    assert batcher.drop({second.entry}) == (older, second, second)
    assert (batcher.take(8), batcher.take(8)) == ((fourth,), (first, third))


def _refuse(_texts: Sequence[str]) -> Vectors:
    raise ProviderFailed("refused", disposition=Disposition.SPLIT)
