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
from agentctx.errors import Disposition, ProviderFailed, SpendCapReached, StorageFull
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.conftest import QueueWorld
from tests.embedding.queue.memory_jobs import FailingCalls
from tests.embedding.queue.scripted_provider import failing, good_reply, vector_of

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


# The scenarios of REQ-EMB-004.


async def test_given_a_started_buffer_when_enqueued_then_processed_in_the_background(
    world: QueueWorld,
) -> None:
    queue = await world.idle_queue()
    (job,) = world.storage.save("hello")
    queue.enqueue([job])
    assert world.storage.vectors == {}
    await world.timer.run(queue.idle())
    assert np.allclose(world.storage.vectors[job.chunk], vector_of("hello"))
    assert world.storage.rows == {}


async def test_given_many_when_the_call_before_them_ends_then_they_are_sent_in_batches_of_the_size(
    world: QueueWorld,
) -> None:
    queue = await world.idle_queue(batch_size=32)
    world.provider.gate.clear()
    queue.enqueue(world.storage.save("alone"))
    await world.timer.until(lambda: world.provider.hanging == 1)
    for text in texts(40):
        queue.enqueue(world.storage.save(text))
        await world.timer.advance(10)
    assert world.provider.calls == [["alone"]]
    world.provider.gate.set()
    await world.timer.settle()
    assert world.provider.sizes == [1, 32, 8]
    assert world.provider.max_concurrent == 1


async def test_given_one_when_no_call_is_in_flight_then_it_is_sent_at_once(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    for text in ("first", "second"):
        queue.enqueue(world.storage.save(text))
        await world.timer.settle()
    assert world.provider.calls == [["first"], ["second"]]


async def test_jobs_of_one_commit_are_sent_together(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    for text in texts(5):  # as the callers of a group commit, who all go on in one round of the loop
        asyncio.get_running_loop().call_soon(queue.enqueue, world.storage.save(text))
    await world.timer.settle()
    assert world.provider.sizes == [5]


async def test_given_a_stop_then_queued_jobs_are_drained_in_normal_batches(world: QueueWorld) -> None:
    queue = await world.idle_queue(batch_size=8, capacity=16)
    queue.enqueue(world.storage.save(*texts(100)))
    await world.timer.run(queue.stop(), limit_ms=0)
    assert world.storage.rows == {}
    assert len(world.storage.vectors) == 100
    assert max(world.provider.sizes) == 8
    assert len(world.provider.sizes) == 13


# No job is dropped.


async def test_ten_thousand_jobs_over_a_capacity_of_64_are_each_embedded_once_in_order(
    world: QueueWorld,
) -> None:
    queue = await world.idle_queue(capacity=64)
    for start in range(0, 10_000, 500):
        queue.enqueue(world.storage.save(*texts(500, f"batch {start}")))
    saved = [job.text for job in world.storage.pending]
    await world.timer.run(queue.idle())
    assert world.provider.texts == saved
    assert len(world.storage.vectors) == 10_000


async def test_an_empty_table_is_not_polled(world: QueueWorld) -> None:
    await world.idle_queue()
    before = list(world.storage.operations)
    await world.timer.advance(24 * HOUR)
    assert world.storage.operations == before


async def test_a_job_announced_while_it_is_claimed_is_embedded_once(world: QueueWorld) -> None:
    queue = world.queue()
    jobs = world.storage.save(*texts(3))
    queue.start()
    for _ in range(20):
        queue.enqueue(jobs)
        await asyncio.sleep(0)
    await world.timer.run(queue.idle())
    assert sorted(world.provider.texts) == texts(3)


async def test_a_job_just_missed_by_a_claim_is_embedded_even_during_a_stop(world: QueueWorld) -> None:
    queue = world.queue()

    def save_once() -> None:
        world.storage.after_claim = None
        queue.enqueue(world.storage.save("just missed"))

    world.storage.after_claim = save_once
    queue.start()
    await asyncio.sleep(0)
    await world.timer.run(queue.stop(), limit_ms=0)
    assert len(world.storage.vectors) == 1


async def test_retried_jobs_are_found_after_a_recheck(world: QueueWorld) -> None:
    world.provider.answer = refusing("bad")
    (job,) = world.storage.save("bad")
    queue = world.queue()
    queue.start()
    await world.timer.run(queue.idle())
    assert len(world.storage.buried_jobs) == 1
    world.provider.answer = good_reply
    assert await world.storage.retry_buried() == 1
    queue.recheck_table()
    await world.timer.settle()
    assert await world.timer.run(queue.wait_settled([job.id])) == {job.id: Outcome.DONE}
    assert len(world.storage.vectors) == 1


async def test_a_job_is_embedded_at_whatever_moment_it_arrives(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    for steps in range(60):  # of the loop, while another job is taken, sent, stored and followed by a nap
        queue.enqueue(world.storage.save(f"before {steps}"))
        for _ in range(steps):
            await asyncio.sleep(0)
        queue.enqueue(world.storage.save(f"after {steps}"))
        await world.timer.settle()
        assert world.storage.rows == {}, f"the job after {steps} steps waits for another"


# Stale jobs.


async def test_the_vector_of_an_entry_deleted_in_flight_is_dropped(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    world.provider.gate.clear()
    kept, deleted = world.storage.save("kept", "deleted")
    queue.enqueue([kept, deleted])
    await world.timer.until(lambda: world.provider.hanging == 1)
    world.storage.delete(deleted)
    world.provider.gate.set()
    await world.timer.run(queue.idle())
    assert set(world.storage.vectors) == {kept.chunk}
    assert (queue.status().embedded, queue.status().stale) == (1, 1)


# Provider faults.


@pytest.mark.parametrize("disposition", [Disposition.SPLIT, Disposition.BURY])
@pytest.mark.parametrize("place", [0, 13, 31])
async def test_one_poisoned_text_of_32_is_buried_alone(
    world: QueueWorld, disposition: Disposition, place: int
) -> None:
    jobs = world.storage.save(*texts(32))
    world.provider.answer = refusing(f"text {place}", disposition=disposition)
    queue = world.queue(batch_size=32)
    queue.start()
    await world.timer.run(queue.idle())
    assert [(row.job, row.error) for row in world.storage.buried_jobs] == [(jobs[place], "refused")]
    assert len(world.storage.vectors) == 31
    assert len(world.provider.calls) <= 14
    assert queue.status().buried == 1
    assert queue.status().state == "ok"


async def test_after_an_outage_the_canary_is_tried_first(world: QueueWorld) -> None:
    queue = world.queue(batch_size=8)
    world.storage.save(*texts(100))
    world.provider.answer = failing()
    queue.start()
    await world.timer.until(lambda: queue.status().state == "degraded")
    assert world.provider.calls == [texts(8), *[[CANARY]] * 5]
    world.provider.answer = good_reply
    await world.timer.until(lambda: not world.storage.rows)
    assert world.provider.sizes[6:10] == [1, 4, 4, 8]
    assert {row.job.attempts for row in world.storage.rows.values()} <= {0}


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.STOP, Disposition.SPLIT])
async def test_one_bad_text_degrades_nothing_and_is_buried_after_bounded_tries(
    world: QueueWorld, disposition: Disposition
) -> None:
    queue = await world.idle_queue()
    world.provider.answer = refusing("text 5", disposition=disposition)
    queue.enqueue(world.storage.save(*texts(20)))
    for _ in range(60):
        await world.timer.advance(1_000)
        assert queue.status().state == "ok"
    assert [row.job.text for row in world.storage.buried_jobs] == ["text 5"]
    assert len(world.storage.vectors) == 19
    assert len(world.provider.calls) < 12 + 2 * MOST_TRIES


async def test_a_question_that_fails_alone_is_held_against_nobody(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    for _ in range(20):
        queue.suspect()
        await world.timer.advance(1_000)
        assert queue.status().state == "ok"
    assert 1 <= len(world.provider.calls) <= 4
    world.provider.answer = failing()
    await world.timer.advance(5_000)
    queue.suspect()
    await world.timer.advance(10_000)
    assert queue.status().state == "degraded"
    world.provider.answer = good_reply
    await world.timer.advance(60_000)
    assert queue.status().state == "ok"


async def test_a_hanging_provider_is_noticed_long_before_the_call_times_out(world: QueueWorld) -> None:
    async def hang(_: str) -> Vectors:
        await asyncio.Event().wait()
        raise AssertionError

    queue = await world.idle_queue(call_timeout_s=60)
    world.provider.gate.clear()
    queue.enqueue(world.storage.save("one"))
    await world.timer.advance(25_000)
    assert queue.status().state == "ok", "questions are answered: it is slow, it does not hang"
    world.provider.embed_query = hang  # type: ignore[assignment,method-assign]
    await world.timer.advance(60_000)
    queue.enqueue(world.storage.save("two"))
    await world.timer.advance(25_000)
    assert queue.status().state == "degraded"


async def test_texts_that_fail_one_after_the_other_are_sent_ever_more_slowly(world: QueueWorld) -> None:
    world.provider.answer = lambda batch: (
        good_reply(batch) if batch == [CANARY] else failing(Disposition.SPLIT)(batch)
    )
    world.storage.save(*texts(1_000))
    queue = world.queue()
    queue.start()
    await world.timer.advance(HOUR)
    assert len(world.storage.buried_jobs) < 100
    assert len(world.provider.calls) < 300
    assert queue.status().state == "ok"


@pytest.mark.parametrize("disposition", [Disposition.LATER, Disposition.RETRY])
async def test_retry_after_holds_the_whole_lane(world: QueueWorld, disposition: Disposition) -> None:
    queue = await world.idle_queue()
    world.provider.answer = failing(disposition, retry_after_s=600)
    queue.enqueue(world.storage.save("limited"))
    await world.timer.until(lambda: len(world.provider.calls) == 1)
    world.provider.answer = good_reply
    queue.enqueue(world.storage.save(*texts(40)))
    await world.timer.advance(599_999)
    assert len(world.provider.calls) == 1
    assert queue.status().state == "degraded"
    await world.timer.until(lambda: not world.storage.rows, limit_ms=2_000)
    assert len(world.storage.vectors) == 41


async def test_a_reached_spend_cap_pauses_the_lane_until_midnight_without_postponing_jobs(
    world: QueueWorld, logs: list[MutableMapping[str, Any]]
) -> None:
    def refuse_over_cap(_: Sequence[str]) -> Vectors:
        raise SpendCapReached("enough for today", retry_after_s=6 * 3_600)

    queue = await world.idle_queue()
    world.provider.answer = refuse_over_cap
    queue.enqueue(world.storage.save(*texts(40)))
    await world.timer.until(lambda: len(world.provider.calls) == 6)
    await world.timer.advance(6 * HOUR - 1_000)
    assert world.provider.sizes == [32, 16, 8, 4, 2, 1]
    status = queue.status()
    assert (status.state, status.reason) == ("degraded", "spend_cap_reached: enough for today")
    assert {row.job.attempts for row in world.storage.rows.values()} == {0}
    assert [line["event"] for line in logs] == ["batch_failed"]
    world.provider.answer = good_reply
    await world.timer.until(lambda: not world.storage.rows)
    assert sorted(world.provider.texts[63:]) == sorted(texts(40))
    assert queue.status().state == "ok"
    assert world.storage.buried_jobs == []


async def test_time_spent_waiting_for_a_rate_limit_is_not_a_timeout(world: QueueWorld) -> None:
    world.provider.limits = ProviderLimits(max_inputs=2_048, longest_wait_s=300)
    queue = await world.idle_queue(call_timeout_s=60)
    world.provider.gate.clear()
    queue.enqueue(world.storage.save("patience"))
    await world.timer.until(lambda: world.provider.hanging == 1)
    await world.timer.advance(350_000)
    assert (queue.status().state, queue.status().reason) == ("ok", None)
    world.provider.gate.set()
    await world.timer.until(lambda: not world.storage.rows)


async def test_a_wrong_key_stops_calls_immediately_until_a_probe_succeeds(world: QueueWorld) -> None:
    world.storage.save(*texts(100))
    world.provider.answer = failing(Disposition.STOP)
    queue = world.queue()
    queue.start()
    await world.timer.advance(29_000)
    assert world.provider.calls[1:] == [[CANARY]]
    await world.timer.advance(HOUR)
    assert world.provider.sizes[0] == 32
    assert set(world.provider.sizes[1:]) == {1}
    assert len(world.provider.sizes) < 100
    world.provider.answer = good_reply
    await world.timer.until(lambda: not world.storage.rows)
    assert world.storage.buried_jobs == []


async def test_batches_shrink_to_what_a_slow_provider_can_embed_in_time(world: QueueWorld) -> None:
    def too_slow_for_more_than_five(batch: Sequence[str]) -> Vectors:
        if len(batch) > 5:
            raise TimeoutError
        return good_reply(batch)

    world.provider.answer = too_slow_for_more_than_five
    world.storage.save(*texts(200))
    world.queue(batch_size=32).start()
    await world.timer.until(lambda: not world.storage.rows, limit_ms=HOUR)
    assert len(world.storage.vectors) == 200


async def test_the_log_of_a_failed_batch_contains_no_text(
    world: QueueWorld, logs: list[MutableMapping[str, Any]]
) -> None:
    def leak(batch: Sequence[str]) -> Vectors:
        raise ValueError(batch)

    world.provider.answer = leak
    world.storage.save("my secret", "other")
    queue = world.queue()
    queue.start()
    await world.timer.until(lambda: len(logs) == 1)
    (entry,) = logs
    assert (entry["event"], entry["jobs"]) == ("batch_failed", 2)
    assert entry["reason"] == "the provider raised ValueError"
    assert "secret" not in (queue.status().reason or "")
    assert all("secret" not in row.error for row in world.storage.rows.values())


# Storage faults.


@pytest.mark.parametrize("operation", ["release_leases", "claim", "next_due", "complete", "postpone", "bury"])
async def test_a_full_disk_costs_time_but_no_job(world: QueueWorld, operation: str) -> None:
    world.storage.save(*texts(20))
    disposition = Disposition.RETRY if operation == "postpone" else Disposition.SPLIT

    def fail_once_then_refuse(batch: Sequence[str]) -> Vectors:
        world.provider.answer = refusing("text 3", disposition=disposition)
        raise TimeoutError

    world.provider.answer = fail_once_then_refuse
    world.storage.fault = FailingCalls(StorageFull("no space left"), (operation,), 6)
    queue = world.queue()
    queue.start()
    await world.timer.until(lambda: queue.status().reason == "no space left")
    assert queue.status().state == "degraded"
    await world.timer.until(lambda: not world.storage.pending)
    assert len(world.storage.vectors) == 19
    assert world.provider.texts.count("text 7") <= 3
    assert queue.status().state == "ok"


async def test_vectors_that_could_not_be_stored_are_not_computed_again(world: QueueWorld) -> None:
    world.storage.save(*texts(5))
    world.storage.fault = FailingCalls(StorageFull("no space left"), ("complete",), 20)
    world.queue().start()
    await world.timer.until(lambda: not world.storage.rows)
    assert world.provider.sizes == [5]


async def test_a_bug_ends_the_queue_and_is_raised(world: QueueWorld) -> None:
    def bug(operation: str) -> None:
        if operation == "complete":
            raise ZeroDivisionError

    world.storage.fault = bug
    world.storage.save("a")
    queue = world.queue()
    queue.start()
    task = queue.task
    assert task is not None
    await world.timer.until(task.done)
    assert isinstance(task.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await world.timer.run(queue.stop())


# Start and stop.


async def test_a_stop_with_a_failing_provider_returns_and_loses_nothing(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    world.provider.answer = failing()
    queue.enqueue(world.storage.save(*texts(1_000)))
    await world.timer.run(queue.stop(), limit_ms=8_000)
    assert len(world.storage.pending) == 1_000
    assert len(world.provider.calls) <= 6
    assert world.storage.leased == []


async def test_a_stop_with_a_hanging_provider_ends_at_the_timeout(world: QueueWorld) -> None:
    world.storage.save(*texts(100))
    world.provider.gate.clear()
    queue = world.queue()
    queue.start()
    await world.timer.until(lambda: world.provider.hanging == 1)
    assert len(world.storage.leased) == 100
    begun = world.timer.now()
    await world.timer.run(queue.stop(timeout=5))
    assert world.timer.now() == begun + 5_000
    assert len(world.storage.pending) == 100
    assert world.storage.leased == []
    assert world.provider.hanging == 0


async def test_a_stop_waits_for_postponed_jobs_unless_it_has_a_timeout(world: QueueWorld) -> None:
    await world.storage.postpone(
        world.storage.save("later"), not_before=world.timer.now() + HOUR, error="down"
    )
    queue = await world.idle_queue()
    await world.timer.run(queue.stop(timeout=60), limit_ms=0)
    assert len(world.storage.pending) == 1
    queue = await world.idle_queue()
    await world.timer.run(queue.stop(), limit_ms=HOUR)
    assert len(world.storage.vectors) == 1


async def test_a_stop_right_after_an_enqueue_embeds_the_jobs(world: QueueWorld) -> None:
    queue = world.queue(batch_size=4, capacity=8)
    queue.start()
    queue.enqueue(world.storage.save(*texts(30)))
    async with asyncio.timeout(30):
        await queue.stop()  # awaited directly: in a task, the queue would run first
    assert len(world.storage.vectors) == 30


async def test_an_incomplete_stop_logs_its_reason(
    world: QueueWorld, logs: list[MutableMapping[str, Any]]
) -> None:
    world.provider.answer = failing(Disposition.STOP)
    queue = await world.idle_queue()
    queue.enqueue(world.storage.save("a"))
    await world.timer.run(queue.stop(), limit_ms=0)
    assert len(world.storage.pending) == 1
    assert [line["reason"] for line in logs if line["event"] == "queue_stopped_early"] == ["scripted stop"]


async def test_a_second_stop_with_a_timeout_cuts_the_first_short(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    world.provider.gate.clear()
    queue.enqueue(world.storage.save("a"))
    patient = asyncio.ensure_future(queue.stop())
    await world.timer.until(lambda: world.provider.hanging == 1)
    await world.timer.run(queue.stop(timeout=0), limit_ms=0)
    await world.timer.run(patient, limit_ms=0)
    assert len(world.storage.pending) == 1


async def test_a_stop_before_the_start_is_fine(world: QueueWorld) -> None:
    queue = world.queue()
    world.storage.save("a")
    await world.timer.run(queue.stop())
    queue.start()
    await world.timer.run(queue.stop())
    assert world.provider.calls == []


async def test_a_cancelled_stop_leaves_the_queue_draining(world: QueueWorld) -> None:
    queue = await world.idle_queue()
    world.provider.gate.clear()
    queue.enqueue(world.storage.save("a"))
    first = asyncio.ensure_future(queue.stop())
    await world.timer.until(lambda: world.provider.hanging == 1)
    first.cancel()
    await world.timer.until(first.done)
    world.provider.gate.set()
    await world.timer.run(queue.stop())
    assert len(world.storage.vectors) == 1


# Pause.


async def test_a_paused_queue_accepts_jobs_but_sends_nothing_until_it_is_resumed(world: QueueWorld) -> None:
    queue = world.queue(capacity=16)
    queue.pause("the model is being loaded")
    world.storage.save(*texts(5))
    queue.start()
    await world.timer.settle()
    queue.enqueue(world.storage.save(*texts(100)))
    await world.timer.advance(HOUR)
    assert world.provider.calls == []
    assert queue.status().state == "starting"
    assert queue.status().reason == "the model is being loaded"
    queue.resume()
    await world.timer.run(queue.idle())
    assert len(world.storage.vectors) == 105
    assert queue.status().state == "ok"


async def test_a_stop_without_a_timeout_waits_for_the_end_of_a_pause(world: QueueWorld) -> None:
    queue = world.queue(capacity=16)
    queue.pause("the model is being loaded")
    world.storage.save(*texts(100))
    queue.start()
    stopping = asyncio.ensure_future(queue.stop())
    await world.timer.advance(HOUR)
    assert not stopping.done()
    queue.resume()
    await world.timer.run(stopping, limit_ms=0)
    assert len(world.storage.vectors) == 100


# Waiting and status.


async def test_a_save_can_wait_until_its_jobs_have_ended(world: QueueWorld) -> None:
    world.provider.answer = refusing("bad")
    queue = await world.idle_queue()
    good, bad, gone = world.storage.save("good", "bad", "gone")
    queue.enqueue([good, bad, gone])
    world.storage.delete(gone)
    outcomes = await world.timer.run(queue.wait_settled([good.id, bad.id, gone.id]))
    assert outcomes == {good.id: Outcome.DONE, bad.id: Outcome.BURIED, gone.id: Outcome.DONE}


async def test_a_save_waits_no_longer_than_its_timeout(world: QueueWorld) -> None:
    world.provider.answer = failing()
    queue = await world.idle_queue()
    (job,) = world.storage.save("a")
    queue.enqueue([job])
    begun = world.timer.now()
    assert await world.timer.run(queue.wait_settled([job.id], timeout=3)) == {}
    assert world.timer.now() == begun + 3_000


async def test_a_stop_releases_waiters(world: QueueWorld) -> None:
    world.provider.answer = failing()
    queue = await world.idle_queue()
    (job,) = world.storage.save("a")
    queue.enqueue([job])
    waiting = asyncio.ensure_future(queue.wait_settled([job.id]))
    await world.timer.run(queue.stop())
    assert await world.timer.run(waiting) == {}


async def test_the_status_counts_jobs(world: QueueWorld) -> None:
    world.provider.answer = refusing("text 1")
    world.storage.save(*texts(4))
    queue = world.queue()
    queue.start()
    await world.timer.run(queue.idle())
    status = queue.status()
    assert (status.embedded, status.buried, status.stale) == (3, 1, 0)
    assert (status.state, status.reason) == ("ok", None)


# The clock.


async def test_a_failed_job_is_retried_when_it_is_due(world: QueueWorld) -> None:
    await world.storage.postpone(
        world.storage.save("later"), not_before=world.timer.now() + 300_000, error="down"
    )
    world.queue().start()
    await world.timer.advance(299_999)
    assert world.storage.vectors == {}
    await world.timer.advance(1_000)
    assert len(world.storage.vectors) == 1


async def test_a_leap_forward_is_noticed_within_a_minute(world: QueueWorld) -> None:
    await world.storage.postpone(
        world.storage.save("later"), not_before=world.timer.now() + 12 * HOUR, error="quota"
    )
    await world.idle_queue()
    world.timer._now += 13 * HOUR  # the machine slept: the loop's alarms have not moved
    for alarm in world.timer._alarms:
        alarm.at += 13 * HOUR
    await world.timer.advance(61_000)
    assert len(world.storage.vectors) == 1


@pytest.mark.parametrize("answer", [good_reply, failing(Disposition.LATER, retry_after_s=600)])
async def test_jobs_written_by_a_clock_far_ahead_do_not_wait_for_it(world: QueueWorld, answer: Any) -> None:
    for job in world.storage.save(*texts(40)):
        ahead = world.timer.now() + job.id * 365 * 24 * HOUR
        await world.storage.postpone([job], not_before=ahead, error="down")
    world.provider.answer = answer
    world.queue(capacity=8).start()
    await world.timer.advance(60_000)
    world.provider.answer = good_reply
    await world.timer.until(lambda: not world.storage.rows, limit_ms=HOUR)


async def test_it_runs_on_the_real_clock(world: QueueWorld) -> None:
    queue = EmbeddingQueue(world.storage, world.provider, QueueSettings(), clock=lambda: 0)
    queue.start()
    jobs = world.storage.save(*texts(3))
    queue.enqueue(jobs)
    async with asyncio.timeout(30):
        outcomes = await queue.wait_settled([job.id for job in jobs])
        await queue.stop()
    assert set(outcomes.values()) == {Outcome.DONE}
    assert world.provider.calls == [texts(3)]
