"""The service's storage: what it keeps and what an engine must be able to do.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, also after a crash: for every enabled space,
every live chunk has its vector or a job that owes it, and no vector lacks its live chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.backups import Backup
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.records import (
    BuriedRow,
    Census,
    Damage,
    Draft,
    Entry,
    Filter,
    IdempotencyKey,
    Job,
    Owed,
    QueueDepth,
    ResolvedChunk,
    Revision,
    SampledChunk,
    Saved,
    ScrubState,
    Space,
    SpaceFault,
    StorageStats,
    VectorHit,
    WordHit,
)
from agentctx.storage.transfer import ExportPage, Selection

ErasureListener: TypeAlias = Callable[[Sequence[str]], None]
"""Is told the ids of entries that were forgotten or whose time is over, once they are gone."""


class JobStorage(Protocol):
    """What the embedding queue needs."""

    async def claim(
        self, limit: int, *, now: int, lease_until: int, exclude: Collection[int] = ()
    ) -> list[Job]:
        """Lease up to `limit` pending jobs that are due and not leased, oldest first, none of `exclude`."""
        ...

    async def release_leases(self) -> None:
        """Free every lease. For the sole owner of the database, at start."""
        ...

    async def complete(self, jobs: Sequence[Job], vectors: Vectors) -> int:
        """Store the vectors `(len(jobs), dimension)` of the jobs that are still owed and remove those jobs.

        Returns how many were stored; the vectors of the other jobs are dropped (the entry changed or went
        away while its text was at the provider).
        """
        ...

    async def postpone(self, jobs: Sequence[Job], *, not_before: int, error: str) -> None:
        """Count a failed attempt; nobody may claim the jobs before `not_before`."""
        ...

    async def bury(self, job: Job, reason: str) -> None:
        """Give the job up, keeping it and the reason."""
        ...

    async def next_due(self, now: int) -> int | None:
        """When the next pending job that is not due now will be: `not_before` or the end of its lease."""
        ...


class StorageCare(Protocol):
    """Looking for damage and repairing it; for `doctor` and the background maintenance.

    Checks change nothing, hold nobody up and may take a minute; one runs at a time, so that questions always
    find a connection. Repairs are idempotent, take nothing from a live entry and let saves go on in between.
    """

    async def check_integrity(self) -> list[str]:
        """What the engine's own check finds wrong, at most 20 lines; empty when sound. No text of entries.

        Raises:
            DeadlineExceeded: not done within a minute. So do the other checks.
        """
        ...

    async def check_words(self) -> str | None:
        """What is wrong with the index of words, compared with every word of the entries; None when sound."""
        ...

    async def check_vectors(self) -> list[SpaceFault]:
        """What is wrong with the vectors of each prepared space, each of them read."""
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
        """Make the index of words anew from the live chunks; returns their number.

        Questions by words find only a part until it is done. Broken off, it leaves chunks without words,
        which the census counts.
        """
        ...

    async def rebuild_vectors(self, space: int) -> int:
        """Drop the vectors of a prepared space, whatever is left of them, and owe all of its live chunks.

        Returns the number of jobs made; those that were owed before are not counted.

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
        """Check a bounded slice, if a pass is under way or due (once a day); False when there is no more."""
        ...

    async def state(self) -> ScrubState: ...

    async def check_all(self) -> list[Damage]:
        """Check everything now."""
        ...

    async def mend(self) -> list[Damage]:
        """Check everything, owe damaged vectors again, and return what cannot be made anew."""
        ...


class Storage(JobStorage, StorageCare, Protocol):
    """Everything the service keeps."""

    @property
    def injections(self) -> InjectionStorage: ...

    @property
    def scrub(self) -> ScrubStorage: ...

    @property
    def vector_store(self) -> str:
        """Which store keeps the vectors: `sqlite-vec`, in the engine's own file, or one outside of it."""
        ...

    async def save(
        self,
        draft: Draft,
        *,
        owed: bool,
        if_version: int | None = None,
        idempotency: IdempotencyKey | None = None,
        revision: Revision | None = None,
    ) -> Saved:
        """Save an entry. A live entry with the same (namespace, collection, key) gets a new version.

        `owed`: make jobs for every enabled space. `revision`, if given, is asked for the draft when such an
        entry exists. Equal content and attributes change nothing. The trust of the new version is the least
        of the old and the draft's.

        Raises:
            VersionConflict: `if_version` is not the live version (0 means: must not exist).
            IdempotencyKeyReused: the key was used for another digest.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...

    async def revise(
        self, entry_id: str, revision: Revision, *, owed: bool, if_version: int | None = None
    ) -> Saved:
        """Save what `revision(live entry, None)` makes of an entry.

        Raises:
            NotFound: no live entry has this id.
            VersionConflict: `if_version` is not its live version.
        """
        ...

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        """The live version, or the one named. Expired entries are gone."""
        ...

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None: ...

    async def history(self, entry_id: str) -> list[Entry]:
        """All versions, newest first; empty when unknown."""
        ...

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: int | None = None, with_content: bool = True
    ) -> tuple[list[Entry], int | None]:
        """A page of live entries, newest first, and the cursor of the next page.

        Without content, `Entry.content` is empty.
        """
        ...

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        """Remove entry, versions, chunks, words, vectors and jobs at once; returns the number of versions.

        That `principal` did it is recorded, without key and content; None is the service itself.

        Raises:
            NotFound, VersionConflict.
        """
        ...

    async def sweep(self, *, limit: int = 1_000) -> int:
        """Remove expired entries and forgotten idempotency keys; returns the number of entries."""
        ...

    def tell_erased(self, listener: ErasureListener) -> None:
        """Tell a listener, from now on, which entries were removed, so that it keeps nothing of them.

        It is called in the loop of the caller and must not raise.
        """
        ...

    async def search_words(self, question: str, wanted: Filter, limit: int) -> list[WordHit]:
        """The best chunks by BM25. Every character of the question is text, never syntax."""
        ...

    async def search_vectors(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[VectorHit]:
        """The nearest chunks of a space, ascending."""
        ...

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Exact distances of those chunks that have a vector in the space."""
        ...

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        """The chunks that are (still) live, unexpired and inside the filter, with their present text."""
        ...

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        """As `JobStorage.claim`, for the jobs of one space."""
        ...

    async def retry_buried(self) -> int:
        """Make every buried job pending again; returns how many."""
        ...

    async def depth(self) -> QueueDepth:
        """What the space that answers is owed; while none does, all that is owed."""
        ...

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        """The jobs that `depth` counts as buried, oldest first."""
        ...

    async def release_leases(self, space: int | None = None) -> None:
        """As `JobStorage.release_leases`, for the jobs of one space."""
        ...

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        """As `JobStorage.next_due`, for the jobs of one space."""
        ...

    async def spaces(self) -> list[Space]:
        """Every space, newest first. Retired ones have no vectors any more."""
        ...

    async def open_space(self, fingerprint: Mapping[str, str | int]) -> Space:
        """`open_spaces` of this one."""
        ...

    async def open_spaces(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        """Find or make the newest space of each fingerprint, enable these and disable every other one.

        Every live chunk without a vector is owed to each of them from then on.

        The first space of a database is active; one beside an active space is building.
        """
        ...

    async def renew_space(self, space_id: int) -> Space:
        """A fresh generation of a space whose model changed silently; it is building and owes everything."""
        ...

    async def prepare_space(self, space_id: int, canary: Vectors) -> Space:
        """Record the canary's vector, fix the dimension by it and make the table of vectors."""
        ...

    async def activate_space(self, space_id: int, *, most_owed: int | None = None) -> Space:
        """Make a space the one that is searched, in one step.

        The one before is kept if it is enabled: it goes on being owed every save, and can be activated
        again. All that are not enabled are retired with their vectors and jobs.

        Raises:
            Conflict: `most_owed` is given, and more jobs are pending, or chunks have neither vector nor job.
        """
        ...

    async def retire_former(self) -> list[int]:
        """Retire every space that was searched before, and every one that is not enabled; returns their ids.

        The active one stays, and one that is being built.
        """
        ...

    async def approve_space(self, space_id: int) -> None:
        """Remember that somebody agreed to what filling the space costs."""
        ...

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        """Remember how the space compared with the active one."""
        ...

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        """Up to `limit` live chunks of all namespaces, spread evenly: the same ones while nothing changes."""
        ...

    async def disable_spaces(self) -> None:
        """Owe nothing to any space from now on (`provider = "none"`)."""
        ...

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        """Make jobs for live chunks that have neither vector nor job in the space; returns how many."""
        ...

    async def owed(self, space_id: int) -> int:
        """Pending jobs of the space."""
        ...

    async def owed_in_all(self, space_id: int) -> Owed:
        """What the space is owed, with its size."""
        ...

    async def export_page(self, selection: Selection, *, after: int, limit: int) -> ExportPage:
        """Live entries in the order of their last version, oldest first; `after` is 0, then a page's `next`.

        An entry that changes meanwhile comes again, at the end; none is left out.
        """
        ...

    async def import_entry(
        self,
        draft: Draft,
        *,
        entry_id: str,
        created: int,
        updated: int,
        owed: bool,
        dry_run: bool = False,
    ) -> Saved:
        """Save an entry under an id, with its times, unless it is there and the same, or newer.

        `dry_run`: only say what would be done.

        Raises:
            InvalidInput: the id is another entry's.
            StorageFull, StorageFailed: nothing was saved.
        """
        ...

    async def backup(self, target: Path) -> Backup:
        """Write a verified copy of everything, as it is at one moment, into a file; saves go on meanwhile.

        A file that was there is replaced at the end, in one step. One backup or check runs at a time.

        Raises:
            InvalidInput: no absolute path, or a file that is there and is no backup.
            StorageFull, StorageFailed: what was there stays.
        """
        ...

    async def stats(self) -> StorageStats: ...

    async def secret(self) -> bytes:
        """32 random bytes, made once for the installation."""
        ...

    async def close(self) -> None: ...
