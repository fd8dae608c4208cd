"""The service's storage: what it keeps and what an engine must be able to do.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, also after a crash: for every enabled space,
every live chunk has its vector or a job that owes it, and no vector lacks its live chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import (
    BuriedRow,
    Census,
    Draft,
    Entry,
    Filter,
    IdempotencyKey,
    Job,
    QueueDepth,
    ResolvedChunk,
    Revision,
    Saved,
    Space,
    SpaceFault,
    StorageStats,
    VectorHit,
    WordHit,
)


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

    async def retry_buried(self) -> int:
        """Make every buried job pending again; returns how many."""
        ...

    async def next_due(self, now: int) -> int | None:
        """When the next pending job that is not due now will be: `not_before` or the end of its lease."""
        ...

    async def depth(self) -> QueueDepth: ...

    async def buried(self, limit: int = 100) -> list[BuriedRow]: ...


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


class Storage(JobStorage, StorageCare, Protocol):
    """Everything the service keeps."""

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

    async def delete(self, entry_id: str, *, if_version: int | None = None) -> int:
        """Remove entry, versions, chunks, words, vectors and jobs at once; returns the number of versions.

        Raises:
            NotFound, VersionConflict.
        """
        ...

    async def sweep(self, *, limit: int = 1_000) -> int:
        """Remove expired entries and forgotten idempotency keys; returns the number of entries."""
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

    async def spaces(self) -> list[Space]:
        """Every space, newest first. Retired ones have no vectors any more."""
        ...

    async def open_space(self, fingerprint: Mapping[str, str | int]) -> Space:
        """Find or make the newest space of a fingerprint, enable it and disable every other one.

        The first space of a database is active; one beside an active space is building.
        """
        ...

    async def renew_space(self, space_id: int) -> Space:
        """A fresh generation of a space whose model changed silently; it is building and owes everything."""
        ...

    async def prepare_space(self, space_id: int, canary: Vectors) -> Space:
        """Record the canary's vector, fix the dimension by it and make the table of vectors."""
        ...

    async def activate_space(self, space_id: int) -> Space:
        """Make a space the one that is searched; the one before is retired with its vectors and jobs."""
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

    async def stats(self) -> StorageStats: ...

    async def secret(self) -> bytes:
        """32 random bytes, made once for the installation."""
        ...

    async def close(self) -> None: ...
