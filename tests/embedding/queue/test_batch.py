from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.batch import Batcher, halves
from tests.embedding.queue.memory_jobs import make_job


def batcher_with(count: int, *, size: int = 4) -> Batcher:
    batcher = Batcher(size=size)
    for number in range(count):
        batcher.add(make_job(number))
    return batcher


def ids(batch: tuple[object, ...]) -> list[int]:
    return [job.id for job in batch]  # type: ignore[attr-defined]  # jobs, of any type


def test_a_batch_is_filled_at_its_size() -> None:
    assert [batcher_with(count, size=4).is_filled for count in (0, 3, 4)] == [False, False, True]


def test_jobs_leave_in_the_order_they_arrived() -> None:
    batcher = batcher_with(4)
    assert ids(batcher.take(3)) == [0, 1, 2]
    assert ids(batcher.take(3)) == [3]
    assert batcher.take(3) == ()


def test_parts_of_a_refused_batch_go_first_in_separate_calls() -> None:
    batcher = batcher_with(2)
    batcher.put_first(halves([make_job(10), make_job(11), make_job(12)]))
    assert batcher.is_filled
    assert [ids(batcher.take(4)) for _ in range(3)] == [[10, 11], [12], [0, 1]]


def test_a_probe_takes_one_text_of_a_part_and_leaves_the_rest() -> None:
    batcher = batcher_with(0)
    batcher.put_first([(make_job(10), make_job(11))])
    assert ids(batcher.take(1)) == [10]
    assert len(batcher) == 1
    assert ids(batcher.take(4)) == [11]


def test_failures_shrink_batches_and_successes_grow_them() -> None:
    batcher = batcher_with(0, size=32)
    limits = [batcher.limit]
    for count in (32, 16, 8):
        batcher.shrink(count)
        limits.append(batcher.limit)
    for _ in range(4):
        batcher.grow()
        limits.append(batcher.limit)
    assert limits == [32, 16, 8, 4, 8, 16, 32, 32]


def test_a_batch_never_shrinks_below_one() -> None:
    batcher = batcher_with(0)
    batcher.shrink(1)
    batcher.shrink(1)
    assert batcher.limit == 1


@given(st.integers(2, 200))
def test_halves_keep_every_job_in_order(count: int) -> None:
    jobs = [make_job(number) for number in range(count)]
    first, second = halves(jobs)
    assert [*first, *second] == jobs
    assert 0 <= len(first) - len(second) <= 1
    assert second


@given(st.lists(st.sampled_from(["add", "take", "probe", "split", "grow", "shrink"]), max_size=80))
def test_no_job_is_lost_or_duplicated(actions: list[str]) -> None:
    batcher = Batcher(size=8)
    added: list[int] = []
    taken: list[int] = []
    for number, action in enumerate(actions):
        if action == "add":
            added.append(number)
            batcher.add(make_job(number))
        elif action in {"take", "probe"}:
            batch = batcher.take(8 if action == "take" else 1)
            assert len(batch) <= batcher.limit
            taken += ids(batch)
        elif action == "split" and len(batch := batcher.take(8)) > 1:
            batcher.put_first(halves(batch))
        elif action == "split":
            taken += ids(batch)
        elif action == "grow":
            batcher.grow()
        else:
            batcher.shrink(batcher.limit)
        assert len(batcher) == len(added) - len(taken)
    while batch := batcher.take(8):
        taken += ids(batch)
    assert sorted(taken) == added
