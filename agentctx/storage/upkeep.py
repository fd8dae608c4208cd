"""Checks and repairs of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from agentctx.storage import spaces
from agentctx.storage.records import Census, SpaceFault, SpaceState
from agentctx.storage.steps import Follower, Rows, Steps

REWRITE_WAIT_S: Final = 30.0
"""How long a rewrite waits for readers and for other daemons."""
JOBS_PER_STEP: Final = 10_000
_ALL: Final = 2**62


def recreate_vectors(space_id: int, *, now: int) -> Steps[int]:
    """Replace what remains of a space's table by an empty one, and create a job for every live chunk.

    Returns the number of jobs created. A space that is not enabled gets no jobs; one that was never prepared,
    or is retired, has no table.

    Raises:
        NotFound: the space does not exist.
    """
    yield from spaces.LockSpaces()
    space = yield from spaces.get(space_id)
    if space.dimension is None or space.state is SpaceState.RETIRED:
        return 0
    yield from spaces.DropVectors(space_id)
    yield from spaces.CreateVectors(space_id, space.dimension)
    return (yield from spaces.CreateMissingJobs(space_id, now, _ALL))


def _create_missing_jobs(space_id: int, *, now: int) -> Steps[int]:
    return (yield from spaces.CreateMissingJobs(space_id, now, JOBS_PER_STEP))


class UpkeepStorage(Protocol):
    """Checks and repairs for `doctor` and the background maintenance.

    Checks change and block nothing and may take a minute; only one runs at a time, so that questions always
    find a connection. Repairs are idempotent, remove nothing from a live entry and let saves proceed in
    between.
    """

    follower: Follower

    async def check_integrity(self) -> list[str]:
        """Return the problems found by the engine's own check: at most 20 lines, without entry text.

        Raises:
            DeadlineExceeded: the check took over a minute; the same applies to the other checks.
        """

    async def repair_file(self) -> bool:
        """Make indexes, words and vectors again if `check_integrity` finds damage in them.

        Returns False if nothing is damaged. While a file is rewritten, nothing is answered or saved.

        Raises:
            StorageCorrupt: something else is damaged, which only a backup has; nothing was changed.
            StorageFull, StorageFailed: the repair failed; the file is unchanged.
        """

    async def check_words(self) -> str | None:
        """Compare the word index with every word of the entries; return the problem, None if it is sound."""

    async def check_vectors(self) -> list[SpaceFault]:
        """Read all vectors of each prepared space and return the faults."""

    async def census(self) -> Census:
        """Count violations of the invariant. Unreachable vectors count as missing."""

    async def remove_orphans(self) -> int:
        """Remove orphaned vectors, jobs, chunks and words; return how many.

        Vectors of a damaged table stay until the table is rebuilt.
        """

    async def create_missing_jobs(self) -> int:
        """Create jobs for live chunks that lack both vector and job in an enabled space; return how many.

        The embedding queue is not notified: the caller must make it recheck the table.
        """
        made, now = 0, self.follower.clock()
        for (space,) in await self.follower.ask(Rows("SELECT id FROM spaces WHERE enabled")):
            while added := await self.follower.change(partial(_create_missing_jobs, space, now=now)):
                made += added
        return made

    async def rebuild_words(self) -> int:
        """Rebuild the word index from the live chunks; return how many it contains.

        The current index answers until the new one is complete and replaces it in one transaction. If the
        rebuild is interrupted, even by a crash, `resume_words` continues it.
        """

    async def resume_words(self) -> int | None:
        """Finish an interrupted `rebuild_words`; return its result, None if there was none."""

    async def rebuild_vectors(self, space: int) -> int:
        """Drop any vectors of a prepared space and create jobs for all live chunks.

        Returns the number of jobs created; existing jobs are not counted.

        Raises:
            NotFound: the space does not exist.
        """
        steps = partial(recreate_vectors, space, now=self.follower.clock())
        return await self.follower.change(steps, lambda _: self.follower.notes.note_deletion())

    async def tidy(self) -> bool:
        """Purge deleted rows from the files if anything was deleted since the last call.

        Returns False if readers prevented it: deleted rows can then still be read from the disk.
        """

    async def wait_for_work(self) -> None:
        """Wait until `tidy` has something to do."""

    @property
    def remains(self) -> Sequence[str]:
        """Where deleted data may be even after `tidy`, one place each; backups have their own report."""

    @property
    def rewrite_problem(self) -> str | None:
        """Why remains of deleted data could not be removed from the files at the last attempt, if so."""

    async def rewrite(self) -> Sequence[str]:
        """Remove deleted data from the files now, from unused space too; return where it may still be.

        Saves wait meanwhile; on a server, reads too.

        Raises:
            DeadlineExceeded: another transaction was in the way for `REWRITE_WAIT_S`.
            StorageFailed, StorageFull: some tables may have been rewritten; it can be repeated.
        """
