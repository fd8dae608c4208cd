from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.job_buffer import JobBuffer
from agentctx.storage.records import Job
from tests.embedding.queue.memory_jobs import make_job


def jobs(*ids: int) -> list[Job]:
    return [make_job(number) for number in ids]


def idle_buffer(capacity: int = 8, low_water: int = 2) -> JobBuffer:
    """Return a buffer that knows that the table has no more jobs."""
    buffer = JobBuffer(capacity=capacity, low_water=low_water)
    buffer.begin_claim()
    buffer.end_claim([], asked=capacity)
    return buffer


def take_all(buffer: JobBuffer) -> list[int]:
    return [job.id for job in iter(buffer.get, None)]


def test_jobs_stay_in_the_table_until_it_was_read() -> None:
    buffer = JobBuffer(capacity=8, low_water=2)
    buffer.offer(jobs(1))
    assert len(buffer) == 0
    assert buffer.room(0) == 8


def test_jobs_are_taken_directly_when_the_table_has_no_older_ones() -> None:
    buffer = idle_buffer()
    buffer.offer(jobs(1, 2))
    assert take_all(buffer) == [1, 2]
    assert buffer.room(5) == 0


def test_overflow_is_fetched_when_the_queue_runs_low() -> None:
    buffer = idle_buffer(capacity=4, low_water=1)
    buffer.offer(jobs(1, 2, 3, 4, 5, 6))
    assert len(buffer) == 4
    assert buffer.room(0) == 0
    for _ in range(3):
        buffer.get()
    assert buffer.room(0) == 3


def test_newer_jobs_do_not_overtake_those_in_the_table() -> None:
    buffer = idle_buffer(capacity=2, low_water=1)
    buffer.offer(jobs(1, 2, 3))
    buffer.get()
    buffer.offer(jobs(4))
    assert take_all(buffer) == [2]


def test_an_empty_table_is_not_polled() -> None:
    assert idle_buffer().room(10**12) == 0


def test_a_full_claim_means_there_may_be_more() -> None:
    buffer = JobBuffer(capacity=2, low_water=1)
    buffer.begin_claim()
    buffer.end_claim(jobs(1, 2), asked=2)
    buffer.get()
    assert buffer.room(0) == 1


def test_a_job_that_arrives_during_a_claim_is_not_forgotten() -> None:
    buffer = JobBuffer(capacity=8, low_water=2)
    buffer.begin_claim()
    buffer.offer(jobs(7))
    assert not buffer.is_empty
    buffer.end_claim([], asked=8)
    assert buffer.room(0) == 8


def test_a_known_job_is_not_taken_twice() -> None:
    buffer = idle_buffer()
    buffer.offer(jobs(1))
    buffer.offer(jobs(1))
    buffer.begin_claim()
    buffer.end_claim(jobs(1), asked=8)
    assert take_all(buffer) == [1]
    buffer.offer(jobs(1))
    assert take_all(buffer) == []


def test_a_newer_text_of_a_job_in_flight_is_fetched_afterwards() -> None:
    buffer = idle_buffer()
    buffer.offer([make_job(1, "old")])
    buffer.offer([make_job(1, "new")])
    buffer.release([make_job(1, "old")])
    assert buffer.has_backlog


def test_the_table_is_read_when_a_postponed_job_is_due() -> None:
    buffer = idle_buffer()
    buffer.expect(900)
    buffer.expect(500)
    buffer.expect(700)
    assert buffer.due == 500
    assert buffer.room(499) == 0
    assert buffer.room(500) == 8
    assert buffer.due is None


def test_it_is_empty_when_no_job_is_queued_in_flight_or_due() -> None:
    buffer = idle_buffer()
    states = [buffer.is_empty]
    buffer.offer(jobs(1))
    states.append(buffer.is_empty)
    buffer.get()
    states.append(buffer.is_empty)
    buffer.release(jobs(1))
    states.append(buffer.is_empty)
    assert states == [True, False, False, True]


@given(st.lists(st.tuples(st.sampled_from(["save", "take", "claim"]), st.integers(1, 5)), max_size=60))
def test_memory_is_bounded_and_every_job_arrives_once_in_order(actions: list[tuple[str, int]]) -> None:
    buffer = idle_buffer(capacity=4, low_water=1)
    table: list[Job] = []
    seen: list[int] = []

    def claim() -> None:
        if room := buffer.room(0):
            buffer.begin_claim()
            claimable = [job for job in table if job.id not in buffer.known][:room]
            buffer.end_claim(claimable, asked=room)

    def take() -> None:
        if job := buffer.get():
            seen.append(job.id)
            table.remove(job)
            buffer.release([job])

    next_id = 0
    for action, count in actions:
        for _ in range(count):
            if action == "save":
                next_id += 1
                table.append(make_job(next_id))
                buffer.offer(table[-1:])
            elif action == "take":
                take()
            else:
                claim()
            assert len(buffer) <= 4
    while table:
        claim()
        take()
    assert seen == list(range(1, next_id + 1))
