"""Storage of embedding jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from agentctx.storage.records import BuriedRow, Job, QueueDepth
from agentctx.storage.vectors import Vectors


class OutboxStorage(Protocol):
    """The embedding jobs: of one space, or of all spaces if `space` is None."""

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        """Lease up to `limit` pending jobs that are due and not leased, oldest first, without `exclude`."""

    async def release_leases(self, space: int | None = None) -> None:
        """Release every lease; called at startup by the sole owner of the database."""

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        """Store the vectors, `(len(jobs), dimension)`, of the jobs that still exist, and remove these
        jobs.

        Returns how many were stored. The vectors of the other jobs, whose entries were changed or removed
        during the provider call, are dropped.
        """

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        """Count a failed attempt; the jobs cannot be claimed before `not_before`."""

    async def bury(self, job: Job, reason: str) -> None:
        """Bury the job with the reason; it stays in the table."""

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        """Return when the next pending job becomes due, by its `not_before` and the end of its lease."""

    async def retry_buried(self) -> int:
        """Make all buried jobs pending again; return how many."""

    async def depth(self) -> QueueDepth:
        """Return the number of jobs of the active space, or of all spaces if none is active."""

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        """Return the jobs that `depth` counts as buried, oldest first."""
