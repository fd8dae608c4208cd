"""What an engine does for its own health."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agentctx.storage.bookkeeping import Bookkeeping
from agentctx.storage.records import Census, Damage, ScrubState, SpaceFault


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRepair:
    """What became of a database file that was repaired."""

    entries: int
    """Live entries that are in it."""
    lost_entries: tuple[str, ...] = ()
    """Ids of entries whose rows could not be read, as far as the indexes know them."""
    incomplete_tables: tuple[str, ...] = ()
    """Tables whose rows could not all be read and cannot be made again."""
    cut_again: int = 0
    """Entries whose chunks were damaged or missing."""
    kept: str | None = None
    """Where the damaged file is now; None when nothing was lost."""

    @property
    def is_lossy(self) -> bool:
        return bool(self.lost_entries or self.incomplete_tables)

    def kept_as(self, path: Path | None) -> FileRepair:
        return replace(self, kept=None if path is None else str(path))


class UpkeepStorage(Protocol):
    """Looking for damage and repairing it; for `doctor` and the background maintenance.

    Checks change nothing, block nothing and may take a minute; one runs at a time, so that questions always
    find a connection. Repairs are idempotent, take nothing from a live entry and let saves continue in
    between.
    """

    async def leads(self, task: str) -> bool:
        """Whether this daemon does a background task of all that share the database, for the next 3 minutes.

        Another one takes over when it does not ask again until then. A daemon with its own file always does.
        """
        ...

    async def check_integrity(self) -> list[str]:
        """What the engine's own check finds wrong, at most 20 lines; empty when sound. No text of entries.

        Raises:
            DeadlineExceeded: not done within a minute. So do the other checks.
        """
        ...

    async def repair_file(self) -> FileRepair | None:
        """Repair what `check_integrity` finds; None when it finds nothing.

        Indexes of tables are made again. If that is not enough, the whole file is, from every row that can
        be read: nothing is answered or saved meanwhile, for about three minutes a gigabyte.

        Raises:
            StorageFull, StorageFailed: the file is what it was.
        """
        ...

    async def check_words(self) -> str | None:
        """What is wrong with the index of words, compared with every word of the entries; None when sound."""
        ...

    async def check_vectors(self) -> list[SpaceFault]:
        """What is wrong with the vectors of each prepared space, each of them read."""
        ...

    async def check_bookkeeping(self) -> Bookkeeping:
        """Which rows cannot be read of those that are not the memory itself, and which a start repaired."""
        ...

    async def repair_bookkeeping(self) -> int:
        """Repair or remove such rows, and remove the values that were set apart; returns how many."""
        ...

    async def census(self) -> Census:
        """Count what breaks the invariant. Vectors that cannot be reached are not there."""
        ...

    async def remove_orphans(self) -> int:
        """Remove vectors, jobs, chunks and words without the live thing they belong to; returns how many.

        Vectors of a damaged table stay until it is rebuilt.
        """
        ...

    async def owe_missing(self) -> int:
        """Make jobs for live chunks of enabled spaces with neither vector nor job; returns how many.

        The embedding queue does not hear of them: have it look again.
        """
        ...

    async def rebuild_words(self) -> int:
        """Build the index of words from the live chunks; returns how many it holds.

        The present index answers until the new one is whole and takes its place in one transaction. Broken
        off, also by a crash, the rebuild is resumed by `resume_words`.
        """
        ...

    async def resume_words(self) -> int | None:
        """Finish an interrupted rebuild, as `rebuild_words`; None when there was none."""
        ...

    async def rebuild_vectors(self, space: int) -> int:
        """Drop the vectors of a prepared space, if any remain, and make jobs for all of its live chunks.

        Returns the number of jobs made; jobs that existed before are not counted.

        Raises:
            NotFound: no such space.
        """
        ...

    async def tidy(self) -> bool:
        """Make what was deleted leave the files, if anything was since the last time.

        Returns False when readers were in the way: some of it can still be read from the disk.
        """
        ...

    async def untidy(self) -> None:
        """Wait until `tidy` has something to do."""
        ...


class ScrubStorage(Protocol):
    """Comparing what is stored with its checksums."""

    @property
    def failures(self) -> int:
        """Reads since the start that met something damaged; it was left out of their answers."""
        ...

    async def step(self) -> bool:
        """Check a bounded slice, if a pass is running or due (once a day); False when nothing is left."""
        ...

    async def state(self) -> ScrubState: ...

    async def check_all(self) -> list[Damage]:
        """Check everything now."""
        ...

    async def repair(self) -> list[Damage]:
        """Check everything, make jobs for damaged vectors, and return what cannot be rebuilt."""
        ...
