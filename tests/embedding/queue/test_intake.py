from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.intake import Intake
from agentctx.storage.records import Job
from tests.embedding.queue.memory_jobs import make_job


def jobs(*ids: int) -> list[Job]:
    return [make_job(number) for number in ids]


def idle_intake(capacity: int = 8, low_water: int = 2) -> Intake:
    """Return an intake that knows that the table has no more jobs."""
    intake = Intake(capacity=capacity, low_water=low_water)
    intake.begin_claim()
    intake.end_claim([], asked=capacity, now=0)
    return intake


def take_all(intake: Intake) -> list[int]:
    return [queued.job.id for queued in iter(intake.get, None)]


def test_jobs_stay_in_the_table_until_it_was_read() -> None:
    intake = Intake(capacity=8, low_water=2)
    intake.offer(jobs(1), 0)
    assert len(intake) == 0
    assert intake.room(0) == 8


def test_jobs_are_taken_directly_when_the_table_has_no_older_ones() -> None:
    intake = idle_intake()
    intake.offer(jobs(1, 2), 5)
    assert take_all(intake) == [1, 2]
    assert intake.room(5) == 0


def test_overflow_is_fetched_when_the_queue_runs_low() -> None:
    intake = idle_intake(capacity=4, low_water=1)
    intake.offer(jobs(1, 2, 3, 4, 5, 6), 0)
    assert len(intake) == 4
    assert intake.room(0) == 0
    for _ in range(3):
        intake.get()
    assert intake.room(0) == 3


def test_newer_jobs_do_not_overtake_those_in_the_table() -> None:
    intake = idle_intake(capacity=2, low_water=1)
    intake.offer(jobs(1, 2, 3), 0)
    intake.get()
    intake.offer(jobs(4), 0)
    assert take_all(intake) == [2]


def test_an_empty_table_is_not_polled() -> None:
    assert idle_intake().room(10**12) == 0


def test_a_full_claim_means_there_may_be_more() -> None:
    intake = Intake(capacity=2, low_water=1)
    intake.begin_claim()
    intake.end_claim(jobs(1, 2), asked=2, now=0)
    intake.get()
    assert intake.room(0) == 1


def test_a_job_that_arrives_during_a_claim_is_not_forgotten() -> None:
    intake = Intake(capacity=8, low_water=2)
    intake.begin_claim()
    intake.offer(jobs(7), 0)
    assert not intake.is_settled
    intake.end_claim([], asked=8, now=0)
    assert intake.room(0) == 8


def test_a_known_job_is_not_taken_twice() -> None:
    intake = idle_intake()
    intake.offer(jobs(1), 0)
    intake.offer(jobs(1), 0)
    intake.begin_claim()
    intake.end_claim(jobs(1), asked=8, now=0)
    assert take_all(intake) == [1]
    intake.offer(jobs(1), 0)
    assert take_all(intake) == []


def test_a_newer_text_of_a_job_in_flight_is_fetched_afterwards() -> None:
    intake = idle_intake()
    intake.offer([make_job(1, "old")], 0)
    intake.offer([make_job(1, "new")], 0)
    intake.release([make_job(1, "old")])
    assert intake.has_backlog


def test_the_table_is_read_when_a_postponed_job_is_due() -> None:
    intake = idle_intake()
    intake.expect(900)
    intake.expect(500)
    intake.expect(700)
    assert intake.due == 500
    assert intake.room(499) == 0
    assert intake.room(500) == 8
    assert intake.due is None


def test_it_is_settled_when_no_job_is_queued_in_flight_or_due() -> None:
    intake = idle_intake()
    settled = [intake.is_settled]
    intake.offer(jobs(1), 0)
    settled.append(intake.is_settled)
    intake.get()
    settled.append(intake.is_settled)
    intake.release(jobs(1))
    settled.append(intake.is_settled)
    assert settled == [True, False, False, True]


@given(st.lists(st.tuples(st.sampled_from(["save", "take", "claim"]), st.integers(1, 5)), max_size=60))
def test_memory_is_bounded_and_every_job_arrives_once_in_order(actions: list[tuple[str, int]]) -> None:
    intake = idle_intake(capacity=4, low_water=1)
    table: list[Job] = []
    seen: list[int] = []

    def claim() -> None:
        if room := intake.room(0):
            intake.begin_claim()
            claimable = [job for job in table if job.id not in intake.known][:room]
            intake.end_claim(claimable, asked=room, now=0)

    def take() -> None:
        if queued := intake.get():
            seen.append(queued.job.id)
            table.remove(queued.job)
            intake.release([queued.job])

    next_id = 0
    for action, count in actions:
        for _ in range(count):
            if action == "save":
                next_id += 1
                table.append(make_job(next_id))
                intake.offer(table[-1:], 0)
            elif action == "take":
                take()
            else:
                claim()
            assert len(intake) <= 4
    while table:
        claim()
        take()
    assert seen == list(range(1, next_id + 1))
