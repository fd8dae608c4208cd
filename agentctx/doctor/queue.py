"""Checks of the queue: pending jobs and their age, buried jobs, and delayed jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentctx.config.embedding import QueueSettings
from agentctx.doctor.check import Finding, check, passed, warned
from agentctx.doctor.contexts import Inner
from agentctx.embedding.queue.retry import LONGEST_PAUSE_S
from agentctx.storage.records import BuriedRow, QueueDepth
from agentctx.wire.wording import counted, duration

OLD_MS = 15 * 60_000
"""Age in ms from which a pending job suggests trouble or a very long queue."""
_SHOWN = 2
_REASON_CHARS = 120


@check(Inner, "queue.backlog")
async def check_backlog(inner: Inner) -> Finding:
    depth = await inner.storage.jobs.depth()
    lanes = inner.daemon.lanes if inner.daemon else None
    status = lanes.leading.queue.status() if lanes else None
    reason = status.reason or status.state if status and status.state != "ok" else None
    return judge_backlog(depth, now=inner.clock(), by_daemon=inner.daemon is not None, reason=reason)


def judge_backlog(depth: QueueDepth, *, now: int, by_daemon: bool, reason: str | None) -> Finding:
    """Judge the jobs pending at `now` (ms). `reason`: why nothing is being embedded; None if it is."""
    if not depth.pending:
        return passed("everything is embedded")
    if not by_daemon:
        return passed(f"waiting for the daemon: {counted(depth.pending, 'job')}")
    age_ms = now - (depth.oldest or now)
    waiting = f"{counted(depth.pending, 'job')} pending, the oldest for {duration(age_ms / 1_000)}"
    if reason is not None:
        return warned(
            f"{waiting}; embedding is paused",
            detail=reason,
            hint="See the findings on Embedding/RAG. Nothing is lost: embedding resumes once they are fixed.",
        )
    if age_ms > OLD_MS:
        return warned(
            waiting,
            hint="`agentctx queue status` shows whether it shrinks. If not, check the daemon's log.",
        )
    return passed(waiting)


async def _retry(inner: Inner) -> str:
    retried = await inner.storage.jobs.retry_buried()
    inner.recheck_table()
    return f"put {counted(retried, 'job')} back into the queue"


@check(Inner, "queue.buried", fix=_retry)
async def check_buried(inner: Inner) -> Finding:
    depth = await inner.storage.jobs.depth()
    return judge_buried(depth.buried, await inner.storage.jobs.buried() if depth.buried else [])


def judge_buried(count: int, rows: Sequence[BuriedRow]) -> Finding:
    if not count:
        return passed("no job has failed permanently")
    reasons = Counter(" ".join(row.reason.split())[:_REASON_CHARS] for row in rows)
    return warned(
        f"{counted(count, 'job')} failed permanently: these passages are found by keyword only",
        detail="; ".join(f"{number} x {reason}" for reason, number in reasons.most_common(_SHOWN)),
        hint="Run `agentctx queue retry` once the cause is fixed; `agentctx queue status` lists them.",
        fixable=True,
    )


@check(Inner, "queue.leases")
async def check_leases(inner: Inner) -> Finding:
    now = inner.clock()
    next_due = await inner.storage.jobs.next_due(now)
    return judge_leases(now=now, next_due=next_due, settings=inner.settings.embedding.queue)


def judge_leases(*, now: int, next_due: int | None, settings: QueueSettings) -> Finding:
    """Judge the next due time: leases and pauses exceed the settings only if the clock was set back."""
    furthest_ms = 1_000 * max(settings.lease_s, LONGEST_PAUSE_S + settings.backoff_max_s)
    if next_due is None or next_due - now <= furthest_ms:
        return passed("no job is delayed longer than expected")
    return warned(
        f"jobs are delayed by {duration((next_due - now) / 1_000)}: was the machine's clock set back?",
        hint="Check the clock and restart the daemon, which frees the jobs it had leased.",
    )
