from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding_queue.retry import (
    LONGEST_PAUSE_S,
    Backoff,
    Failure,
    RetryVerdict,
    decide,
    failure_of,
    timeout_failure,
)
from agentctx.errors import Disposition, InvalidInput, ProviderFailed, SpendCapReached
from tests.embedding_queue.memory_jobs import make_job
from tests.embedding_queue.seeded import seeded

NOW = 1_000_000
BACKOFF = Backoff(base_s=1.0, max_s=300.0)
TRANSIENT = (Disposition.RETRY, Disposition.LATER, Disposition.STOP)
REFUSED = (Disposition.SPLIT, Disposition.BURY)


def verdict_on(
    count: int,
    disposition: Disposition,
    *,
    retry_after_s: float | None = None,
    trusted: bool = True,
    seed: int = 1,
) -> RetryVerdict:
    return decide(
        [make_job(number) for number in range(count)],
        Failure(disposition, "reason", retry_after_s),
        trusted=trusted,
        now=NOW,
        backoff=BACKOFF,
        rng=seeded(seed),
    )


@pytest.mark.parametrize("error", [TimeoutError(), ValueError("secret text"), InvalidInput("no")])
def test_a_foreign_exception_is_transient_and_reported_by_class_only(error: Exception) -> None:
    failure = failure_of(error)
    assert failure.disposition is Disposition.RETRY
    assert failure.reason == f"the provider raised {type(error).__name__}"


def test_a_provider_classifies_its_own_failures() -> None:
    error = ProviderFailed("quota", disposition=Disposition.LATER, retry_after_s=7)
    assert failure_of(error) == Failure(Disposition.LATER, "quota", 7)


def test_a_timeout_is_transient() -> None:
    assert timeout_failure(2.5) == Failure(Disposition.RETRY, "the provider did not answer within 2.5 s")


@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_backoff_is_random_up_to_its_ceiling(attempts: int, seed: int) -> None:
    delay = BACKOFF.delay_ms(attempts, seeded(seed))
    assert 0 <= delay <= 1000 * min(300, 2 ** min(attempts, 20))


def test_backoff_grows_and_is_spread() -> None:
    rng = seeded(1)
    means = [sum(BACKOFF.delay_ms(attempts, rng) for _ in range(500)) / 500 for attempts in range(12)]
    assert means[:8] == sorted(means[:8])
    assert 120_000 < means[11] < 180_000
    assert len({BACKOFF.delay_ms(11, rng) for _ in range(100)}) > 90


@given(
    st.sampled_from(list(Disposition)),
    st.lists(st.integers(0, 50), min_size=1, max_size=64),
    st.none() | st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_every_job_has_exactly_one_fate(
    disposition: Disposition, attempts: list[int], retry_after_s: float | None, trusted: bool, seed: int
) -> None:
    jobs = [make_job(number, attempts=count) for number, count in enumerate(attempts)]
    failure = Failure(disposition, "reason", retry_after_s)
    verdict = decide(jobs, failure, trusted=trusted, now=NOW, backoff=BACKOFF, rng=seeded(seed))
    fates = [job for group in verdict.postpone for job in group.jobs]
    fates += [job for part in verdict.parts for job in part]
    fates += verdict.bury
    assert sorted(fates, key=lambda job: job.id) == jobs
    if disposition in TRANSIENT:
        assert verdict.bury == ()
    assert len(verdict.bury) <= 1


@pytest.mark.parametrize("disposition", TRANSIENT)
def test_a_transient_fault_never_buries_a_job(disposition: Disposition) -> None:
    job = make_job(1, attempts=100_000)
    verdict = decide(
        [job], Failure(disposition, "down"), trusted=True, now=NOW, backoff=BACKOFF, rng=seeded(1)
    )
    assert verdict.bury == ()
    assert verdict.postpone[0].jobs == (job,)
    assert NOW <= verdict.postpone[0].not_before <= NOW + 300_000
    assert verdict.is_fault


@pytest.mark.parametrize("disposition", REFUSED)
def test_a_refused_batch_is_halved_and_not_a_fault_yet(disposition: Disposition) -> None:
    verdict = verdict_on(5, disposition)
    assert [len(part) for part in verdict.parts] == [3, 2]
    assert not verdict.is_fault


@pytest.mark.parametrize("disposition", REFUSED)
def test_a_text_refused_alone_is_buried(disposition: Disposition) -> None:
    verdict = verdict_on(1, disposition)
    assert [job.id for job in verdict.bury] == [0]


@pytest.mark.parametrize("disposition", REFUSED)
def test_an_untrusted_provider_buries_nothing(disposition: Disposition) -> None:
    verdict = verdict_on(1, disposition, trusted=False)
    assert verdict.bury == ()
    assert [job.id for job in verdict.postpone[0].jobs] == [0]
    assert verdict.is_fault


@given(st.sampled_from(TRANSIENT), st.floats(0, LONGEST_PAUSE_S), st.integers(0, 2**32))
def test_nothing_is_retried_before_retry_after(disposition: Disposition, seconds: float, seed: int) -> None:
    verdict = verdict_on(3, disposition, retry_after_s=seconds, seed=seed)
    earliest = NOW + seconds * 1000
    assert verdict.hold_until is not None
    assert earliest <= verdict.hold_until <= earliest + 1
    assert all(group.not_before >= earliest for group in verdict.postpone)


@pytest.mark.parametrize(
    ("seconds", "held_ms"), [(math.inf, 86_400_000), (1e12, 86_400_000), (-5.0, 0), (math.nan, 0)]
)
def test_an_absurd_retry_after_is_bounded(seconds: float, held_ms: int) -> None:
    assert verdict_on(1, Disposition.LATER, retry_after_s=seconds).hold_until == NOW + held_ms


def test_a_pause_without_a_length_holds_the_lane_for_a_backoff() -> None:
    verdict = verdict_on(3, Disposition.LATER)
    assert verdict.hold_until == verdict.postpone[0].not_before


def test_a_plain_retry_does_not_hold_the_lane() -> None:
    assert verdict_on(3, Disposition.RETRY).hold_until is None


def test_only_stop_stops() -> None:
    assert [one for one in Disposition if verdict_on(1, one).stop] == [Disposition.STOP]


def test_jobs_with_more_failures_are_postponed_separately() -> None:
    jobs = [make_job(1, attempts=0), make_job(2, attempts=9), make_job(3, attempts=0)]
    verdict = decide(
        jobs,
        Failure(Disposition.RETRY, "down"),
        trusted=True,
        now=NOW,
        backoff=BACKOFF,
        rng=seeded(1),
    )
    assert [[job.id for job in group.jobs] for group in verdict.postpone] == [[1, 3], [2]]


def test_our_own_limit_is_not_a_fault_and_leaves_the_jobs_unchanged() -> None:
    failure = failure_of(SpendCapReached("enough for today", retry_after_s=3_600))
    assert failure == Failure(Disposition.LATER, "spend_cap_reached: enough for today", 3_600, is_ours=True)
    jobs = tuple(make_job(number) for number in range(3))
    for trusted in (True, False):
        several, alone = (
            decide(some, failure, trusted=trusted, now=NOW, backoff=BACKOFF, rng=seeded(1))
            for some in (jobs, jobs[:1])
        )
        assert several == RetryVerdict(parts=(jobs[:2], jobs[2:]))
        assert alone == RetryVerdict(parts=(jobs[:1],), hold_until=NOW + 3_600_000)
