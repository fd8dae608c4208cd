"""Decide what to do with the jobs of a failed provider call. No I/O."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.embedding_queue.batch import Batch, halves
from agentctx.errors import Disposition, ProviderFailed, SpendCapReached
from agentctx.storage.records import Job

LONGEST_PAUSE_S = 86_400.0
"""Cap on `Retry-After`: daily quotas are honoured, but a nonsense value cannot stop the queue forever."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a provider call failed. `reason` is shown to operators and contains no entry text."""

    disposition: Disposition
    reason: str
    retry_after_s: float | None = None
    is_ours: bool = False
    """Whether one of our own limits forbids the call, so neither the provider nor a text is to blame."""


def failure_of(error: Exception) -> Failure:
    """Convert a provider's exception to a failure. Anything but `ProviderFailed` is transient.

    The message of a foreign exception may quote the texts that were sent, so only its class is kept.
    """
    if isinstance(error, SpendCapReached):
        reason = f"{error.code}: {error.message}"
        return Failure(error.disposition, reason, error.retry_after_s, is_ours=True)
    if isinstance(error, ProviderFailed):
        return Failure(error.disposition, error.message, error.retry_after_s)
    return Failure(Disposition.RETRY, f"the provider raised {type(error).__name__}")


def timeout_failure(timeout_s: float) -> Failure:
    """Return the failure of a call that timed out after `timeout_s` seconds."""
    return Failure(Disposition.RETRY, f"the provider did not answer within {timeout_s:g} s")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter, in seconds."""

    base_s: float
    max_s: float

    def delay_ms(self, attempts: int, rng: random.Random) -> int:
        """Return a random delay up to `base_s * 2**attempts`, after `attempts` earlier failures."""
        ceiling_s = min(self.max_s, self.base_s * 2.0 ** min(attempts, 64))
        return math.ceil(rng.uniform(0, ceiling_s) * 1000)


@dataclass(frozen=True, slots=True)
class Postponed:
    """Jobs that may be retried from `not_before` on (milliseconds)."""

    jobs: Batch
    not_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryVerdict:
    """What to do with the jobs of a call. Each is in exactly one of `postpone`, `parts` and `bury`."""

    postpone: tuple[Postponed, ...] = ()
    parts: tuple[Batch, ...] = ()
    """Batches to send again, one call each."""
    bury: tuple[Job, ...] = ()
    hold_until: int | None = None
    """No calls at all before this time (milliseconds)."""
    is_fault: bool = False
    """Whether the provider, rather than a text, seems to be at fault: the breaker counts it."""
    stop: bool = False
    """Whether no call can succeed until the configuration changes."""


def decide(
    jobs: Sequence[Job],
    failure: Failure,
    *,
    trusted: bool,
    now: int,
    backoff: Backoff,
    rng: random.Random,
) -> RetryVerdict:
    """Decide what to do with the jobs of one failed call.

    `trusted`: the provider is known to work, so a text refused on its own is at fault and is buried.
    Otherwise it is postponed: a misconfigured provider refuses everything, which must not bury everything.

    A limit of our own may have room for fewer jobs. If not even one fits, the lane is held and the jobs stay
    unchanged: once the limit is raised and the daemon restarted, they are sent at once.
    """
    if failure.is_ours:
        if len(jobs) > 1:
            return RetryVerdict(parts=halves(jobs))
        return RetryVerdict(parts=(tuple(jobs),), hold_until=_earliest(failure, now))
    if failure.disposition in {Disposition.SPLIT, Disposition.BURY}:
        if len(jobs) > 1:
            return RetryVerdict(parts=halves(jobs))
        if trusted:
            # Also counted as a fault: many single refusals in a row point to the provider, not to the texts.
            return RetryVerdict(bury=tuple(jobs), is_fault=True)
    postponed = _postpone(jobs, _earliest(failure, now), now=now, backoff=backoff, rng=rng)
    return RetryVerdict(
        postpone=postponed,
        hold_until=_hold_until(failure, postponed, now),
        is_fault=True,
        stop=failure.disposition is Disposition.STOP,
    )


def _earliest(failure: Failure, now: int) -> int:
    wanted_s = failure.retry_after_s or 0.0
    if math.isnan(wanted_s):
        return now
    return now + math.ceil(min(max(wanted_s, 0.0), LONGEST_PAUSE_S) * 1000)


def _hold_until(failure: Failure, postponed: Sequence[Postponed], now: int) -> int | None:
    if failure.retry_after_s is not None:
        return _earliest(failure, now)
    if failure.disposition is Disposition.LATER:
        return min(group.not_before for group in postponed)
    return None


def _postpone(
    jobs: Sequence[Job], earliest: int, *, now: int, backoff: Backoff, rng: random.Random
) -> tuple[Postponed, ...]:
    """Jobs that failed equally often are retried together, so a troublemaker is soon retried alone."""
    groups: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.attempts].append(job)
    return tuple(
        Postponed(tuple(group), max(earliest, now + backoff.delay_ms(attempts, rng)))
        for attempts, group in sorted(groups.items())
    )
