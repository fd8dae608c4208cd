"""The outbox of embedding jobs."""

from __future__ import annotations

from agentctx.storage.sqlite.connections import SqlitePart, reads, writes
from agentctx.storage.sqlite.queue import jobs


class SqliteJobs(SqlitePart):
    """`OutboxStorage` on the SQLite file."""

    claim = writes(jobs.claim)
    release_leases = writes(jobs.release_leases)
    complete = writes(jobs.complete)
    postpone = writes(jobs.postpone)
    bury = writes(jobs.bury)
    retry_buried = writes(jobs.retry_buried)
    next_due = reads(jobs.next_due)
    depth = reads(jobs.depth)
    buried = reads(jobs.buried)
