from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.queue.retry import (
    LIMITS_IN_A_ROW,
    LONGEST_PAUSE_S,
    MOST_TRIES,
    Backoff,
    Failure,
    RetryVerdict,
    decide,
    failure_of,
    needs_canary,
    pause_until,
    timeout_failure,
)
from agentctx.errors import Disposition, InvalidInput, ProviderFailed, SpendCapReached
from tests.embedding.queue.memory_jobs import make_job
from tests.embedding.queue.seeded import seeded

NOW = 1_000_000
BACKOFF = Backoff(base_s=1.0, max_s=300.0)
REFUSED = (Disposition.SPLIT, Disposition.BURY)
ILL = Failure(Disposition.RETRY, "the canary fails too")
OURS = failure_of(SpendCapReached("enough for today", retry_after_s=3_600))


def verdict_on(
    count: int,
    disposition: Disposition,
    *,
    retry_after_s: float | None = None,
    canary: Failure | None = None,
    tries: int = 0,
    seed: int = 1,
) -> RetryVerdict:
    return decide(
        [make_job(number) for number in range(count)],
        Failure(disposition, "reason", retry_after_s),
        canary=canary,
        tries=tries,
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
    reason = "the provider did not answer within 2.5 s"
    assert timeout_failure(2.5) == Failure(Disposition.RETRY, reason, is_silent=True)


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
    st.integers(1, 64),
    st.none() | st.floats(allow_nan=True, allow_infinity=True),
    st.none() | st.just(ILL) | st.just(OURS),
    st.integers(0, 10),
    st.integers(0, 2**32),
)
def test_every_job_has_exactly_one_fate(
    disposition: Disposition,
    count: int,
    retry_after_s: float | None,
    canary: Failure | None,
    tries: int,
    seed: int,
) -> None:
    verdict = verdict_on(
        count, disposition, retry_after_s=retry_after_s, canary=canary, tries=tries, seed=seed
    )
    fates = [job for group in verdict.postpone for job in group.jobs]
    fates += [job for part in verdict.parts for job in part]
    fates += verdict.bury
    assert sorted(fates, key=lambda job: job.id) == [make_job(number) for number in range(count)]
    assert len(verdict.bury) <= 1
    if verdict.bury:
        assert verdict.fault is None
        assert canary is None


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.STOP])
def test_while_the_canary_fails_the_provider_is_at_fault_and_the_jobs_wait(
    disposition: Disposition, count: int
) -> None:
    verdict = verdict_on(count, disposition, canary=ILL, tries=100)
    assert verdict == RetryVerdict(parts=(tuple(make_job(number) for number in range(count)),), fault=ILL)


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.STOP, *REFUSED])
def test_while_the_canary_is_well_a_batch_is_halved(disposition: Disposition) -> None:
    verdict = verdict_on(5, disposition)
    assert [len(part) for part in verdict.parts] == [3, 2]
    assert verdict.fault is None


def test_a_text_refused_alone_twice_is_buried() -> None:
    assert verdict_on(1, Disposition.SPLIT) == RetryVerdict(parts=((make_job(0),),))
    assert [job.id for job in verdict_on(1, Disposition.SPLIT, tries=1).bury] == [0]
    assert [job.id for job in verdict_on(1, Disposition.BURY).bury] == [0]


@pytest.mark.parametrize("disposition", REFUSED)
def test_a_provider_that_refuses_the_canary_too_buries_nothing(disposition: Disposition) -> None:
    assert verdict_on(1, disposition, canary=ILL) == RetryVerdict(parts=((make_job(0),),), fault=ILL)


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.STOP])
def test_a_text_that_fails_alone_again_and_again_is_buried_in_the_end(disposition: Disposition) -> None:
    for tries in range(MOST_TRIES - 1):
        verdict = verdict_on(1, disposition, tries=tries)
        assert verdict.fault is None
        assert NOW <= verdict.postpone[0].not_before <= NOW + 1_000 * 2**tries
    assert verdict_on(1, disposition, tries=MOST_TRIES - 1).bury


@given(
    st.sampled_from([Disposition.LATER, Disposition.RETRY]), st.floats(0, LONGEST_PAUSE_S), st.integers(1, 3)
)
def test_a_limit_is_the_providers_and_never_buries(
    disposition: Disposition, seconds: float, count: int
) -> None:
    verdict = verdict_on(count, disposition, retry_after_s=seconds, tries=LIMITS_IN_A_ROW - 1)
    assert verdict.fault is not None
    assert verdict.bury == ()
    assert pause_until(verdict.fault, NOW) >= NOW + seconds * 1000
    assert all(group.not_before >= NOW + seconds * 1000 for group in verdict.postpone)
    assert len(verdict.postpone) == (count == 1), "a request over the limit does not block the others"


def test_a_text_that_alone_is_too_large_for_a_limit_is_found_out() -> None:
    limit = Failure(Disposition.LATER, "429")
    assert needs_canary([make_job(0)], limit, tries=LIMITS_IN_A_ROW, is_fresh=False)
    assert verdict_on(1, Disposition.LATER, tries=LIMITS_IN_A_ROW).fault is None
    assert verdict_on(1, Disposition.LATER, tries=LIMITS_IN_A_ROW, canary=limit).fault == limit


@pytest.mark.parametrize(
    ("seconds", "held_ms"), [(math.inf, 86_400_000), (1e12, 86_400_000), (-5.0, 0), (math.nan, 0)]
)
def test_an_absurd_retry_after_is_bounded(seconds: float, held_ms: int) -> None:
    assert pause_until(Failure(Disposition.LATER, "", seconds), NOW) == NOW + held_ms


@pytest.mark.parametrize(
    ("disposition", "count", "is_fresh", "expected"),
    [
        (Disposition.RETRY, 1, True, True),
        (Disposition.RETRY, 2, True, False),
        (Disposition.RETRY, 2, False, True),
        (Disposition.STOP, 2, False, True),
        (Disposition.SPLIT, 1, True, True),
        (Disposition.SPLIT, 2, False, False),
        (Disposition.LATER, 1, False, False),
        (Disposition.BURY, 1, False, True),
        (Disposition.BURY, 2, False, False),
    ],
)
def test_the_canary_is_asked_only_if_it_can_tell(
    disposition: Disposition, count: int, is_fresh: bool, expected: bool
) -> None:
    jobs = [make_job(number) for number in range(count)]
    assert needs_canary(jobs, Failure(disposition, "reason"), tries=0, is_fresh=is_fresh) is expected


def test_our_own_limit_is_not_a_fault_and_leaves_the_jobs_unchanged() -> None:
    assert Failure(Disposition.LATER, "spend_cap_reached: enough for today", 3_600, is_ours=True) == OURS
    assert not needs_canary([make_job(0)], OURS, tries=9, is_fresh=False)
    jobs = tuple(make_job(number) for number in range(3))
    several, alone = (
        decide(some, OURS, canary=None, tries=0, now=NOW, backoff=BACKOFF, rng=seeded(1))
        for some in (jobs, jobs[:1])
    )
    assert several == RetryVerdict(parts=(jobs[:2], jobs[2:]))
    assert alone == RetryVerdict(parts=(jobs[:1],), fault=OURS)
