from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np
import pytest

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.providers.base import ProviderLimits
from agentctx.embedding.providers.canary import CANARY
from agentctx.embedding.queue.outcomes import Outcome
from agentctx.embedding.queue.retry import MOST_TRIES
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import Disposition, ProviderFailed, SpendCapReached, StorageFailed, StorageFull
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.conftest import MakeQueue
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import FailingCalls, MemoryJobs
from tests.embedding.queue.scripted_provider import ScriptedProvider, failing, good_reply, vector_of

HOUR = 3_600_000


def texts(count: int, prefix: str = "text") -> list[str]:
    return [f"{prefix} {number}" for number in range(count)]


def refusing(*culprits: str, disposition: Disposition = Disposition.SPLIT) -> Any:
    """Return an answer that refuses every batch with one of the culprits."""

    def answer(batch: Sequence[str]) -> Vectors:
        if set(culprits) & set(batch):
            raise ProviderFailed("refused", disposition=disposition)
        return good_reply(batch)

    return answer


async def start_idle(queue: EmbeddingQueue, timer: ManualTimer) -> EmbeddingQueue:
    """Start the queue and wait until it has found its table empty."""
    queue.start()
    await timer.run(queue.idle(), limit_ms=0)
    return queue


# The scenarios of REQ-EMB-004.


async def test_given_a_started_buffer_when_enqueued_then_processed_in_the_background(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    (job,) = storage.save("hello")
    queue.enqueue([job])
    assert storage.vectors == {}
    await timer.run(queue.idle())
    assert np.allclose(storage.vectors[job.chunk], vector_of("hello"))
    assert storage.rows == {}


async def test_given_many_when_the_size_is_reached_then_one_batch_is_sent(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(batch_size=32), timer)
    queue.enqueue(storage.save(*texts(31)))
    await timer.settle()
    assert provider.sizes == []
    queue.enqueue(storage.save("the last"))
    await timer.settle()
    assert provider.sizes == [32]


async def test_given_many_when_the_wait_is_over_then_one_batch_is_sent(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(batch_wait_ms=50), timer)
    queue.enqueue(storage.save("first"))
    await timer.advance(30)
    queue.enqueue(storage.save("second"))  # must not restart the wait
    await timer.advance(19)
    assert provider.sizes == []
    await timer.advance(1)
    assert provider.calls == [["first", "second"]]


async def test_given_a_stop_then_queued_jobs_are_drained_in_normal_batches(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(batch_size=8, capacity=16), timer)
    queue.enqueue(storage.save(*texts(100)))
    await timer.run(queue.stop(), limit_ms=0)
    assert storage.rows == {}
    assert len(storage.vectors) == 100
    assert max(provider.sizes) == 8
    assert len(provider.sizes) == 13


# No job is dropped.


async def test_ten_thousand_jobs_over_a_capacity_of_64_are_each_embedded_once_in_order(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(capacity=64), timer)
    for start in range(0, 10_000, 500):
        queue.enqueue(storage.save(*texts(500, f"batch {start}")))
        assert queue.status().queued <= 64
    saved = [job.text for job in storage.pending]
    await timer.run(queue.idle())
    assert provider.texts == saved
    assert len(storage.vectors) == 10_000


async def test_an_empty_table_is_not_polled(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    await start_idle(make_queue(), timer)
    before = list(storage.operations)
    await timer.advance(24 * HOUR)
    assert storage.operations == before


async def test_jobs_from_before_the_start_are_embedded(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue()
    queue.enqueue(storage.save("announced before the start"))
    storage.save("never announced")
    queue.start()
    await timer.run(queue.idle())
    assert len(storage.vectors) == 2


async def test_after_a_crash_a_new_queue_takes_over_leased_jobs(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    storage.save(*texts(50))
    provider.gate.clear()
    crashed = make_queue()
    crashing = asyncio.ensure_future(crashed.run())
    await timer.until(lambda: provider.hanging == 1)
    storage.fault = FailingCalls(StorageFailed("the process is gone"), ("release_leases",), 1)
    crashing.cancel()
    await timer.until(crashing.done)
    assert len(storage.leased) == 50
    provider.gate.set()
    queue = make_queue()
    queue.start()
    await timer.run(queue.idle(), limit_ms=100)
    assert len(storage.vectors) == 50


async def test_jobs_saved_after_a_stop_wait_in_the_table(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    await timer.run(queue.stop())
    queue.enqueue(storage.save("late"))
    assert queue.status().queued == 0
    successor = make_queue()
    successor.start()
    await timer.run(successor.idle())
    assert len(storage.vectors) == 1


async def test_a_job_announced_while_it_is_claimed_is_embedded_once(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue()
    jobs = storage.save(*texts(3))
    queue.start()
    for _ in range(20):
        queue.enqueue(jobs)
        await asyncio.sleep(0)
    await timer.run(queue.idle())
    assert sorted(provider.texts) == texts(3)


async def test_a_job_just_missed_by_a_claim_is_embedded_even_during_a_stop(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue()

    def save_once() -> None:
        storage.after_claim = None
        queue.enqueue(storage.save("just missed"))

    storage.after_claim = save_once
    queue.start()
    await asyncio.sleep(0)
    await timer.run(queue.stop(), limit_ms=0)
    assert len(storage.vectors) == 1


async def test_queued_jobs_are_not_claimed(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(batch_size=2), timer)
    provider.gate.clear()
    queue.enqueue(storage.save(*texts(3)))
    await timer.until(lambda: provider.hanging == 1)
    queue.recheck_table()
    provider.gate.set()
    await timer.run(queue.idle())
    assert storage.operations.count("claim") >= 2
    assert storage.claimed == []


async def test_retried_jobs_are_found_after_a_recheck(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = refusing("bad")
    (job,) = storage.save("bad")
    queue = make_queue()
    queue.start()
    await timer.run(queue.idle())
    assert len(storage.buried_jobs) == 1
    provider.answer = good_reply
    assert await storage.retry_buried() == 1
    queue.recheck_table()
    await timer.settle()
    assert await timer.run(queue.wait_settled([job.id])) == {job.id: Outcome.DONE}
    assert len(storage.vectors) == 1


# One call at a time.


async def test_jobs_accumulate_while_a_batch_is_at_the_provider(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.gate.clear()
    queue.enqueue(storage.save("first"))
    await timer.until(lambda: provider.hanging == 1)
    for text in texts(10):
        queue.enqueue(storage.save(text))
        await timer.advance(10)
    assert queue.status().in_flight == 1
    assert queue.status().queued == 10
    provider.gate.set()
    await timer.settle()
    assert provider.sizes == [1, 10]
    assert provider.max_concurrent == 1


# Stale jobs.


async def test_the_vector_of_an_entry_deleted_in_flight_is_dropped(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.gate.clear()
    kept, deleted = storage.save("kept", "deleted")
    queue.enqueue([kept, deleted])
    await timer.until(lambda: provider.hanging == 1)
    storage.delete(deleted)
    provider.gate.set()
    await timer.run(queue.idle())
    assert set(storage.vectors) == {kept.chunk}
    assert (queue.status().embedded, queue.status().stale) == (1, 1)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_entry_edited_in_flight_gets_the_vector_of_its_new_text(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    announced: bool,
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.gate.clear()
    (job,) = storage.save("old")
    queue.enqueue([job])
    await timer.until(lambda: provider.hanging == 1)
    changed = storage.rewrite(job, "new")
    if announced:
        queue.enqueue([changed])
    provider.gate.set()
    await timer.run(queue.idle())
    assert np.allclose(storage.vectors[job.chunk], vector_of("new"))


# Provider faults.


@pytest.mark.parametrize("disposition", [Disposition.SPLIT, Disposition.BURY])
@pytest.mark.parametrize("place", [0, 13, 31])
async def test_one_poisoned_text_of_32_is_buried_alone(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    disposition: Disposition,
    place: int,
) -> None:
    jobs = storage.save(*texts(32))
    provider.answer = refusing(f"text {place}", disposition=disposition)
    queue = make_queue(batch_size=32)
    queue.start()
    await timer.run(queue.idle())
    assert [(row.job, row.error) for row in storage.buried_jobs] == [(jobs[place], "refused")]
    assert len(storage.vectors) == 31
    assert len(provider.calls) <= 14
    assert queue.status().buried == 1
    assert queue.status().state == "ok"


async def test_a_nan_vector_never_reaches_the_storage(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    def answer(batch: Sequence[str]) -> Vectors:
        reply = good_reply(batch)
        reply[[text == "text 5" for text in batch]] = np.nan
        return reply

    provider.answer = answer
    storage.save(*texts(8))
    queue = make_queue()
    queue.start()
    await timer.run(queue.idle())
    assert [row.job.text for row in storage.buried_jobs] == ["text 5"]
    assert len(storage.vectors) == 7


async def test_one_percent_of_poison_does_not_affect_other_texts(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    bad = [f"text {number}" for number in range(7, 2_000, 100)]
    provider.answer = refusing(*bad)
    storage.save(*texts(2_000))
    queue = make_queue()
    queue.start()
    await timer.run(queue.idle())
    assert sorted(row.job.text for row in storage.buried_jobs) == sorted(bad)
    assert len(storage.vectors) == 1_980
    assert len(provider.calls) < 20 * 14 + 63


async def test_a_provider_that_refuses_everything_does_not_bury_everything(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = failing(Disposition.SPLIT)
    storage.save(*texts(200))
    queue = make_queue(breaker_failures=5)
    queue.start()
    await timer.advance(24 * HOUR)
    assert storage.buried_jobs == []
    assert queue.status().state == "degraded"
    provider.answer = good_reply
    await timer.until(lambda: not storage.pending)
    assert len(storage.vectors) == 200


async def test_an_outage_of_a_day_buries_nothing_and_costs_few_calls(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.answer = failing()
    calls: list[int] = []
    for hour in range(24):
        queue.enqueue(storage.save(*texts(417, f"hour {hour}")))
        await timer.advance(HOUR)
        calls.append(len(provider.calls) - sum(calls))
        assert queue.status().state == "degraded"
        assert queue.status().reason == "scripted retry"
    assert max(calls) <= 130
    assert storage.buried_jobs == []
    assert len(storage.rows) == 24 * 417
    provider.answer = good_reply
    recovered = timer.now()
    await timer.until(lambda: not storage.rows)
    assert timer.now() - recovered <= 2 * 300_000
    assert len(storage.vectors) == 24 * 417
    assert queue.status().state == "ok"


async def test_after_an_outage_the_canary_is_tried_first(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(batch_size=8)
    storage.save(*texts(100))
    provider.answer = failing()
    queue.start()
    await timer.until(lambda: queue.status().state == "degraded")
    assert provider.calls == [texts(8), *[[CANARY]] * 5]
    provider.answer = good_reply
    await timer.until(lambda: not storage.rows)
    assert provider.sizes[6:10] == [1, 4, 4, 8]
    assert {row.job.attempts for row in storage.rows.values()} <= {0}


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.STOP, Disposition.SPLIT])
async def test_one_bad_text_degrades_nothing_and_is_buried_after_bounded_tries(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    disposition: Disposition,
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.answer = refusing("text 5", disposition=disposition)
    queue.enqueue(storage.save(*texts(20)))
    for _ in range(60):
        await timer.advance(1_000)
        assert queue.status().state == "ok"
    assert [row.job.text for row in storage.buried_jobs] == ["text 5"]
    assert len(storage.vectors) == 19
    assert len(provider.calls) < 12 + 2 * MOST_TRIES


async def test_a_question_that_fails_alone_is_held_against_nobody(
    make_queue: MakeQueue, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    for _ in range(20):
        queue.suspect()
        await timer.advance(1_000)
        assert queue.status().state == "ok"
    assert 1 <= len(provider.calls) <= 4
    provider.answer = failing()
    await timer.advance(5_000)
    queue.suspect()
    await timer.advance(10_000)
    assert queue.status().state == "degraded"
    provider.answer = good_reply
    await timer.advance(60_000)
    assert queue.status().state == "ok"


async def test_a_hanging_provider_is_noticed_long_before_the_call_times_out(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    async def hang(_: str) -> Vectors:
        await asyncio.Event().wait()
        raise AssertionError

    queue = await start_idle(make_queue(call_timeout_s=60), timer)
    provider.gate.clear()
    queue.enqueue(storage.save("one"))
    await timer.advance(25_000)
    assert queue.status().state == "ok", "questions are answered: it is slow, it does not hang"
    provider.embed_query = hang  # type: ignore[assignment,method-assign]
    await timer.advance(60_000)
    queue.enqueue(storage.save("two"))
    await timer.advance(25_000)
    assert queue.status().state == "degraded"


async def test_texts_that_fail_one_after_the_other_are_sent_ever_more_slowly(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = lambda batch: (
        good_reply(batch) if batch == [CANARY] else failing(Disposition.SPLIT)(batch)
    )
    storage.save(*texts(1_000))
    queue = make_queue()
    queue.start()
    await timer.advance(HOUR)
    assert len(storage.buried_jobs) < 100
    assert len(provider.calls) < 300
    assert queue.status().state == "ok"


@pytest.mark.parametrize("disposition", [Disposition.LATER, Disposition.RETRY])
async def test_retry_after_holds_the_whole_lane(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    disposition: Disposition,
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.answer = failing(disposition, retry_after_s=600)
    queue.enqueue(storage.save("limited"))
    await timer.until(lambda: len(provider.calls) == 1)
    limited = timer.now()
    provider.answer = good_reply
    queue.enqueue(storage.save(*texts(40)))
    await timer.advance(599_999)
    assert len(provider.calls) == 1
    assert queue.status().state == "degraded"
    assert queue.status().until == limited + 600_000
    await timer.until(lambda: not storage.rows, limit_ms=2_000)
    assert len(storage.vectors) == 41


async def test_a_reached_spend_cap_pauses_the_lane_until_midnight_without_postponing_jobs(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    logs: list[MutableMapping[str, Any]],
) -> None:
    def refuse_over_cap(_: Sequence[str]) -> Vectors:
        raise SpendCapReached("enough for today", retry_after_s=6 * 3_600)

    queue = await start_idle(make_queue(), timer)
    provider.answer = refuse_over_cap
    queue.enqueue(storage.save(*texts(40)))
    await timer.until(lambda: len(provider.calls) == 6)
    await timer.advance(6 * HOUR - 1_000)
    assert provider.sizes == [32, 16, 8, 4, 2, 1]
    status = queue.status()
    assert (status.state, status.reason) == ("degraded", "spend_cap_reached: enough for today")
    assert {row.job.attempts for row in storage.rows.values()} == {0}
    assert [line["event"] for line in logs] == ["batch_failed"]
    provider.answer = good_reply
    await timer.until(lambda: not storage.rows)
    assert sorted(provider.texts[63:]) == sorted(texts(40))
    assert queue.status().state == "ok"
    assert storage.buried_jobs == []


async def test_texts_that_still_fit_under_the_cap_are_embedded(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    room = [13]

    def limited(batch: Sequence[str]) -> Vectors:
        if len(batch) > room[0]:
            raise SpendCapReached("enough for today", retry_after_s=6 * 3_600)
        room[0] -= len(batch)
        return good_reply(batch)

    queue = await start_idle(make_queue(), timer)
    provider.answer = limited
    queue.enqueue(storage.save(*texts(32)))
    await timer.until(lambda: queue.status().state == "degraded")
    assert len(storage.vectors) == 13


async def test_a_stop_at_a_reached_cap_returns_immediately_and_loses_nothing(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    def refuse_over_cap(_: Sequence[str]) -> Vectors:
        raise SpendCapReached("enough for today", retry_after_s=6 * 3_600)

    queue = await start_idle(make_queue(), timer)
    provider.answer = refuse_over_cap
    queue.enqueue(storage.save(*texts(3)))
    await timer.until(lambda: queue.status().state == "degraded")
    await timer.run(queue.stop(), limit_ms=0)
    provider.answer = good_reply
    again = make_queue()
    again.start()
    await timer.until(lambda: not storage.rows)
    assert len(storage.vectors) == 3


async def test_time_spent_waiting_for_a_rate_limit_is_not_a_timeout(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.limits = ProviderLimits(max_inputs=2_048, longest_wait_s=300)
    queue = await start_idle(make_queue(call_timeout_s=60), timer)
    provider.gate.clear()
    queue.enqueue(storage.save("patience"))
    await timer.until(lambda: provider.hanging == 1)
    await timer.advance(350_000)
    assert queue.status().failed_calls == 0
    provider.gate.set()
    await timer.until(lambda: not storage.rows)


async def test_a_wrong_key_stops_calls_immediately_until_a_probe_succeeds(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    storage.save(*texts(100))
    provider.answer = failing(Disposition.STOP)
    queue = make_queue()
    queue.start()
    await timer.advance(29_000)
    assert provider.calls[1:] == [[CANARY]]
    await timer.advance(HOUR)
    assert provider.sizes[0] == 32
    assert set(provider.sizes[1:]) == {1}
    assert len(provider.sizes) < 100
    provider.answer = good_reply
    await timer.until(lambda: not storage.rows)
    assert storage.buried_jobs == []


async def test_a_hanging_call_times_out_and_is_retried(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(call_timeout_s=60), timer)
    provider.gate.clear()
    (job,) = storage.save("patience")
    queue.enqueue([job])
    await timer.until(lambda: provider.hanging == 1)
    await timer.advance(60_000)
    assert storage.rows[job.id].job == job
    provider.gate.set()
    await timer.until(lambda: not storage.rows)
    assert provider.max_concurrent == 1


async def test_batches_shrink_to_what_a_slow_provider_can_embed_in_time(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    def too_slow_for_more_than_five(batch: Sequence[str]) -> Vectors:
        if len(batch) > 5:
            raise TimeoutError
        return good_reply(batch)

    provider.answer = too_slow_for_more_than_five
    storage.save(*texts(200))
    make_queue(batch_size=32).start()
    await timer.until(lambda: not storage.rows, limit_ms=HOUR)
    assert len(storage.vectors) == 200


async def test_the_log_of_a_failed_batch_contains_no_text(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    logs: list[MutableMapping[str, Any]],
) -> None:
    def leak(batch: Sequence[str]) -> Vectors:
        raise ValueError(batch)

    provider.answer = leak
    storage.save("my secret", "other")
    queue = make_queue()
    queue.start()
    await timer.until(lambda: len(logs) == 1)
    (entry,) = logs
    assert (entry["event"], entry["jobs"]) == ("batch_failed", 2)
    assert entry["reason"] == "the provider raised ValueError"
    assert "secret" not in (queue.status().reason or "")
    assert all("secret" not in row.error for row in storage.rows.values())


# Storage faults.


@pytest.mark.parametrize("operation", ["release_leases", "claim", "next_due", "complete", "postpone", "bury"])
async def test_a_full_disk_costs_time_but_no_job(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer, operation: str
) -> None:
    storage.save(*texts(20))
    disposition = Disposition.RETRY if operation == "postpone" else Disposition.SPLIT

    def fail_once_then_refuse(batch: Sequence[str]) -> Vectors:
        provider.answer = refusing("text 3", disposition=disposition)
        raise TimeoutError

    provider.answer = fail_once_then_refuse
    storage.fault = FailingCalls(StorageFull("no space left"), (operation,), 6)
    queue = make_queue()
    queue.start()
    await timer.until(lambda: queue.status().reason == "no space left")
    assert queue.status().state == "degraded"
    await timer.until(lambda: not storage.pending)
    assert len(storage.vectors) == 19
    assert provider.texts.count("text 7") <= 3
    assert queue.status().state == "ok"


async def test_vectors_that_could_not_be_stored_are_not_computed_again(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    storage.save(*texts(5))
    storage.fault = FailingCalls(StorageFull("no space left"), ("complete",), 20)
    make_queue().start()
    await timer.until(lambda: not storage.rows)
    assert provider.sizes == [5]


async def test_a_bug_ends_the_queue_and_is_raised(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    def bug(operation: str) -> None:
        if operation == "complete":
            raise ZeroDivisionError

    storage.fault = bug
    storage.save("a")
    queue = make_queue()
    queue.start()
    task = queue.task
    assert task is not None
    await timer.until(task.done)
    assert isinstance(task.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await timer.run(queue.stop())


async def test_a_bug_ends_a_task_group(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    def bug(operation: str) -> None:
        raise ZeroDivisionError

    storage.fault = bug

    async def daemon() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(make_queue().run())
            group.create_task(asyncio.Event().wait())

    with pytest.raises(ExceptionGroup) as caught:
        await timer.run(daemon())
    assert caught.group_contains(ZeroDivisionError)


# Start and stop.


async def test_a_stop_with_a_failing_provider_returns_and_loses_nothing(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.answer = failing()
    queue.enqueue(storage.save(*texts(1_000)))
    await timer.run(queue.stop(), limit_ms=8_000)
    assert len(storage.pending) == 1_000
    assert len(provider.calls) <= 6
    assert storage.leased == []


async def test_a_stop_with_a_hanging_provider_ends_at_the_timeout(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    storage.save(*texts(100))
    provider.gate.clear()
    queue = make_queue()
    queue.start()
    await timer.until(lambda: provider.hanging == 1)
    assert len(storage.leased) == 100
    begun = timer.now()
    await timer.run(queue.stop(timeout=5))
    assert timer.now() == begun + 5_000
    assert len(storage.pending) == 100
    assert storage.leased == []
    assert provider.hanging == 0


async def test_a_stop_with_a_hanging_provider_and_no_timeout_ends_too(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(call_timeout_s=60, breaker_failures=5), timer)
    provider.gate.clear()
    queue.enqueue(storage.save(*texts(1_000)))
    await timer.run(queue.stop(), limit_ms=5 * 60_000)
    assert len(storage.pending) == 1_000


async def test_a_stop_with_a_failing_storage_returns(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    storage.fault = FailingCalls(StorageFull("no space left"), ("complete", "release_leases"), 10**9)
    queue.enqueue(storage.save(*texts(10)))
    await timer.until(lambda: queue.status().reason == "no space left")
    await timer.run(queue.stop(), limit_ms=0)
    assert len(storage.pending) == 10


async def test_a_stop_does_not_wait_for_a_batch_to_fill(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(batch_wait_ms=60_000), timer)
    queue.enqueue(storage.save("short"))
    await timer.run(queue.stop(), limit_ms=0)
    assert len(storage.vectors) == 1


async def test_a_stop_waits_for_postponed_jobs_unless_it_has_a_timeout(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    await storage.postpone(storage.save("later"), not_before=timer.now() + HOUR, error="down")
    queue = await start_idle(make_queue(), timer)
    await timer.run(queue.stop(timeout=60), limit_ms=0)
    assert len(storage.pending) == 1
    queue = await start_idle(make_queue(), timer)
    await timer.run(queue.stop(), limit_ms=HOUR)
    assert len(storage.vectors) == 1


async def test_a_stop_retries_after_a_transient_failure(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    faults = [failing(), failing(Disposition.LATER, retry_after_s=600)]

    def answer(batch: Sequence[str]) -> Vectors:
        return faults.pop()(batch) if faults else good_reply(batch)

    provider.answer = answer
    queue = await start_idle(make_queue(batch_size=4), timer)
    queue.enqueue(storage.save(*texts(40)))
    await timer.run(queue.stop())
    assert faults == []
    assert len(storage.vectors) == 40


async def test_a_stop_right_after_an_enqueue_embeds_the_jobs(
    make_queue: MakeQueue, storage: MemoryJobs
) -> None:
    queue = make_queue(batch_size=4, capacity=8)
    queue.start()
    queue.enqueue(storage.save(*texts(30)))
    async with asyncio.timeout(30):
        await queue.stop()  # awaited directly: in a task, the queue would run first
    assert len(storage.vectors) == 30


@pytest.mark.parametrize("timeout", [0, 5])
async def test_a_stop_right_after_the_start_ends_at_its_timeout(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    timeout: float,
) -> None:
    provider.gate.clear()
    storage.save(*texts(30))
    queue = make_queue()
    queue.start()
    await timer.run(queue.stop(timeout), limit_ms=round(timeout * 1_000))
    assert len(storage.pending) == 30
    assert storage.leased == []


async def test_an_incomplete_stop_logs_its_reason(
    make_queue: MakeQueue,
    storage: MemoryJobs,
    provider: ScriptedProvider,
    timer: ManualTimer,
    logs: list[MutableMapping[str, Any]],
) -> None:
    provider.answer = failing(Disposition.STOP)
    queue = await start_idle(make_queue(), timer)
    queue.enqueue(storage.save("a"))
    await timer.run(queue.stop(), limit_ms=0)
    assert len(storage.pending) == 1
    assert [line["reason"] for line in logs if line["event"] == "queue_stopped_early"] == ["scripted stop"]


async def test_a_stop_with_one_job_and_a_failing_provider_ends(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = failing()
    queue = await start_idle(make_queue(breaker_failures=5), timer)
    queue.enqueue(storage.save("a"))
    await timer.run(queue.stop(), limit_ms=10 * 60_000)
    assert len(provider.calls) == 6
    assert len(storage.pending) == 1


async def test_concurrent_stops_are_fine(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    queue.enqueue(storage.save(*texts(100)))
    await timer.run(asyncio.gather(*(queue.stop() for _ in range(5))))
    await timer.run(queue.stop(timeout=1))
    assert len(storage.vectors) == 100


async def test_a_second_stop_with_a_timeout_cuts_the_first_short(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.gate.clear()
    queue.enqueue(storage.save("a"))
    patient = asyncio.ensure_future(queue.stop())
    await timer.until(lambda: provider.hanging == 1)
    await timer.run(queue.stop(timeout=0), limit_ms=0)
    await timer.run(patient, limit_ms=0)
    assert len(storage.pending) == 1


async def test_a_stop_before_the_start_is_fine(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue()
    storage.save("a")
    await timer.run(queue.stop())
    queue.start()
    await timer.run(queue.stop())
    assert provider.calls == []


async def test_a_stop_right_after_the_start_is_fine(make_queue: MakeQueue, timer: ManualTimer) -> None:
    queue = make_queue()
    queue.start()
    queue.start()
    await timer.run(queue.stop(), limit_ms=0)


async def test_a_cancelled_stop_leaves_the_queue_draining(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = await start_idle(make_queue(), timer)
    provider.gate.clear()
    queue.enqueue(storage.save("a"))
    first = asyncio.ensure_future(queue.stop())
    await timer.until(lambda: provider.hanging == 1)
    first.cancel()
    await timer.until(first.done)
    provider.gate.set()
    await timer.run(queue.stop())
    assert len(storage.vectors) == 1


async def test_run_works_in_a_task_group_and_ends_with_stop(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue()
    storage.save("a")

    async def daemon() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run())
            await queue.idle()
            await queue.stop()

    await timer.run(daemon())
    assert len(storage.vectors) == 1


async def test_a_queue_runs_once(make_queue: MakeQueue, timer: ManualTimer) -> None:
    queue = await start_idle(make_queue(), timer)
    with pytest.raises(RuntimeError):
        await queue.run()


# Pause.


async def test_a_paused_queue_accepts_jobs_but_sends_nothing_until_it_is_resumed(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    queue = make_queue(capacity=16)
    queue.pause("the model is being loaded")
    storage.save(*texts(5))
    queue.start()
    await timer.settle()
    queue.enqueue(storage.save(*texts(100)))
    await timer.advance(HOUR)
    assert provider.calls == []
    assert queue.status().state == "starting"
    assert queue.status().reason == "the model is being loaded"
    queue.resume()
    await timer.run(queue.idle())
    assert len(storage.vectors) == 105
    assert queue.status().state == "ok"


async def test_a_paused_queue_with_a_timeout_stops_immediately(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue()
    queue.pause("the model is being loaded")
    storage.save(*texts(5_000))
    queue.start()
    await timer.settle()
    await timer.run(queue.stop(timeout=60), limit_ms=0)
    assert len(storage.pending) == 5_000


async def test_a_stop_without_a_timeout_waits_for_the_end_of_a_pause(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue(capacity=16)
    queue.pause("the model is being loaded")
    storage.save(*texts(100))
    queue.start()
    stopping = asyncio.ensure_future(queue.stop())
    await timer.advance(HOUR)
    assert not stopping.done()
    queue.resume()
    await timer.run(stopping, limit_ms=0)
    assert len(storage.vectors) == 100


async def test_a_second_stop_with_a_timeout_does_not_wait_for_the_end_of_a_pause(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    queue = make_queue()
    queue.pause("the model is being loaded")
    storage.save("a")
    queue.start()
    patient = asyncio.ensure_future(queue.stop())
    await timer.settle()
    await timer.run(queue.stop(timeout=60), limit_ms=0)
    await timer.run(patient, limit_ms=0)
    assert len(storage.pending) == 1


# Waiting and status.


async def test_a_save_can_wait_until_its_jobs_have_ended(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = refusing("bad")
    queue = await start_idle(make_queue(), timer)
    good, bad, gone = storage.save("good", "bad", "gone")
    queue.enqueue([good, bad, gone])
    storage.delete(gone)
    outcomes = await timer.run(queue.wait_settled([good.id, bad.id, gone.id]))
    assert outcomes == {good.id: Outcome.DONE, bad.id: Outcome.BURIED, gone.id: Outcome.DONE}


async def test_a_save_waits_no_longer_than_its_timeout(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = failing()
    queue = await start_idle(make_queue(), timer)
    (job,) = storage.save("a")
    queue.enqueue([job])
    begun = timer.now()
    assert await timer.run(queue.wait_settled([job.id], timeout=3)) == {}
    assert timer.now() == begun + 3_000


async def test_a_stop_releases_waiters(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = failing()
    queue = await start_idle(make_queue(), timer)
    (job,) = storage.save("a")
    queue.enqueue([job])
    waiting = asyncio.ensure_future(queue.wait_settled([job.id]))
    await timer.run(queue.stop())
    assert await timer.run(waiting) == {}


async def test_the_status_counts_jobs_and_calls(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer
) -> None:
    provider.answer = refusing("text 1")
    storage.save(*texts(4))
    queue = make_queue()
    queue.start()
    await timer.run(queue.idle())
    status = queue.status()
    assert (status.embedded, status.buried, status.stale) == (3, 1, 0)
    assert (status.queued, status.in_flight) == (0, 0)
    assert (status.calls, status.failed_calls) == (6, 4)
    assert status.batch_sizes == {4: 1, 2: 2, 1: 3}
    assert (status.state, status.reason, status.until) == ("ok", None, None)


# The clock.


async def test_a_failed_job_is_retried_when_it_is_due(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    await storage.postpone(storage.save("later"), not_before=timer.now() + 300_000, error="down")
    make_queue().start()
    await timer.advance(299_999)
    assert storage.vectors == {}
    await timer.advance(1_000)
    assert len(storage.vectors) == 1


async def test_a_leap_forward_is_noticed_within_a_minute(
    make_queue: MakeQueue, storage: MemoryJobs, timer: ManualTimer
) -> None:
    await storage.postpone(storage.save("later"), not_before=timer.now() + 12 * HOUR, error="quota")
    await start_idle(make_queue(), timer)
    timer._now += 13 * HOUR  # the machine slept: the loop's alarms have not moved
    for alarm in timer._alarms:
        alarm.at += 13 * HOUR
    await timer.advance(61_000)
    assert len(storage.vectors) == 1


@pytest.mark.parametrize("answer", [good_reply, failing(Disposition.LATER, retry_after_s=600)])
async def test_jobs_written_by_a_clock_far_ahead_do_not_wait_for_it(
    make_queue: MakeQueue, storage: MemoryJobs, provider: ScriptedProvider, timer: ManualTimer, answer: Any
) -> None:
    for job in storage.save(*texts(40)):
        ahead = timer.now() + job.id * 365 * 24 * HOUR
        await storage.postpone([job], not_before=ahead, error="down")
    provider.answer = answer
    make_queue(capacity=8).start()
    await timer.advance(60_000)
    provider.answer = good_reply
    await timer.until(lambda: not storage.rows, limit_ms=HOUR)


async def test_it_runs_on_the_real_clock(storage: MemoryJobs, provider: ScriptedProvider) -> None:
    queue = EmbeddingQueue(storage, provider, QueueSettings(batch_wait_ms=1), clock=lambda: 0)
    queue.start()
    jobs = storage.save(*texts(3))
    queue.enqueue(jobs)
    async with asyncio.timeout(30):
        outcomes = await queue.wait_settled([job.id for job in jobs])
        await queue.stop()
    assert set(outcomes.values()) == {Outcome.DONE}
    assert provider.calls == [texts(3)]
