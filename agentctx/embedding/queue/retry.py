"""Decide what to do with the jobs of a failed provider call. No I/O."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.embedding.queue.batch import Batch, halves
from agentctx.errors import Disposition, ProviderFailed, SpendCapReached
from agentctx.storage.records import Job

MOST_TRIES = 6
"""How often a text may fail alone, while the canary is embedded, before it is buried."""
LIMITS_IN_A_ROW = 2
"""After so many rate limits for the same text alone, the canary is asked whether they are meant for all."""
_REFUSED = frozenset({Disposition.SPLIT, Disposition.BURY})
_MOST_TRIES_OF = {Disposition.BURY: 1, Disposition.SPLIT: 2}
"""What is refused is refused again; but once may have been chance."""
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
    is_silent: bool = False
    """Whether there was no answer at all."""


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
    reason = f"the provider did not answer within {timeout_s:g} s"
    return Failure(Disposition.RETRY, reason, is_silent=True)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter, in seconds: random, from the share `least` of a ceiling on."""

    base_s: float
    max_s: float
    least: float = 0.0

    def delay_ms(self, attempts: int, rng: random.Random) -> int:
        """Return a random delay up to `base_s * 2**attempts`, after `attempts` earlier failures."""
        ceiling_s = min(self.max_s, self.base_s * 2.0 ** min(attempts, 64))
        return math.ceil(rng.uniform(self.least * ceiling_s, ceiling_s) * 1000)


@dataclass(frozen=True, slots=True)
class PostponedJobs:
    """Jobs that may be retried from `not_before` on (milliseconds)."""

    jobs: Batch
    not_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryVerdict:
    """What to do with the jobs of a call. Each is in exactly one of `postpone`, `parts` and `bury`."""

    postpone: tuple[PostponedJobs, ...] = ()
    parts: tuple[Batch, ...] = ()
    """Batches to send again, one call each."""
    bury: tuple[Job, ...] = ()
    fault: Failure | None = None
    """What the provider or one of our own limits did; None if a text is at fault."""


def needs_canary(jobs: Sequence[Job], failure: Failure, *, tries: int, is_fresh: bool) -> bool:
    """Return whether only the canary can tell if the provider or one of the texts is at fault.

    `is_fresh`: the provider has just embedded something, which suffices while several texts are suspected.
    """
    if failure.is_ours or _is_plain_limit(failure, tries):
        return False
    return len(jobs) == 1 or (failure.disposition not in _REFUSED and not is_fresh)


def decide(
    jobs: Sequence[Job],
    failure: Failure,
    *,
    canary: Failure | None,
    tries: int,
    now: int,
    backoff: Backoff,
    rng: random.Random,
) -> RetryVerdict:
    """Decide what to do with the jobs of one failed call: is a text at fault, or the provider?

    `canary`: why the canary failed as well, or None. `tries`: how often a single text failed before, while
    the provider was well. While the provider is at fault, the jobs stay unchanged and wait: no text is buried
    for it, and all are sent once it is well.
    """
    fault, alone = _fault(jobs, failure, canary, tries), len(jobs) == 1
    postponed = PostponedJobs(tuple(jobs), pause_until(failure, now) + backoff.delay_ms(tries, rng))
    if fault is not None and is_limit(fault) and not fault.is_ours and alone:
        # A text that is too large for the provider's limit must not keep the others waiting for ever.
        return RetryVerdict(postpone=(postponed,), fault=fault)
    if fault is not None:
        return RetryVerdict(parts=(tuple(jobs),), fault=fault)
    if not alone:
        return RetryVerdict(parts=halves(jobs))
    if tries + 1 >= _MOST_TRIES_OF.get(failure.disposition, MOST_TRIES):
        return RetryVerdict(bury=tuple(jobs))
    if failure.disposition is Disposition.SPLIT:
        return RetryVerdict(parts=(tuple(jobs),))
    return RetryVerdict(postpone=(postponed,))


def _fault(jobs: Sequence[Job], failure: Failure, canary: Failure | None, tries: int) -> Failure | None:
    """Return what speaks against the provider, or against sending anything; None if a text is at fault."""
    alone = len(jobs) == 1
    if failure.is_ours:
        # Our own limit may have room for fewer jobs.
        return failure if alone else None
    if failure.disposition in _REFUSED and not alone:
        return None
    return failure if _is_plain_limit(failure, tries) else canary


def _is_plain_limit(failure: Failure, tries: int) -> bool:
    """Return whether a rate limit is to blame, not a text that is too large for it."""
    return is_limit(failure) and tries < LIMITS_IN_A_ROW


def is_limit(failure: Failure) -> bool:
    """Return whether the provider takes nothing for now, whatever the text."""
    return failure.disposition is Disposition.LATER or failure.retry_after_s is not None


def pause_until(failure: Failure, now: int) -> int:
    """Return when a failed call may be repeated, as far as the provider says so."""
    wanted_s = failure.retry_after_s or 0.0
    if math.isnan(wanted_s):
        return now
    return now + math.ceil(min(max(wanted_s, 0.0), LONGEST_PAUSE_S) * 1000)
