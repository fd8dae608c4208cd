"""The service's storage: what it keeps and what an engine must be able to do.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, also after a crash: for every enabled space,
every live chunk has its vector or a job that owes it, and no vector lacks its live chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from agentctx.chunking.base import Span
from agentctx.embedding_providers.base import Vectors
from agentctx.wire import Origin, Trust

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""

TRUST_ORDER: tuple[Trust, ...] = ("external", "agent", "operator")
"""From the least to the most. Nothing can raise the trust of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a store wants saved: a whole entry, validated, redacted and chunked."""

    namespace: str
    collection: str
    content: str
    spans: tuple[Span, ...]
    chunking: int
    """Version of the chunking rules."""
    attributes: Mapping[str, Any]
    """JSON values, validated by the collection's model."""
    labels: str = ""
    """Key, trigger and tags, searched beside the text."""
    header: str = ""
    """Short context that is embedded in front of every chunk."""
    key: str | None = None
    session: str = ""
    agent: str = ""
    origin: Origin
    trust: Trust
    principal: int
    """The kernel's uid of who saved it."""
    expires: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version of a saved thing. The id is stable over versions; exactly one version is live."""

    id: str
    version: int
    live: bool
    namespace: str
    collection: str
    key: str | None
    session: str
    agent: str
    content: str
    attributes: Mapping[str, Any]
    origin: Origin
    trust: Trust
    principal: int
    created: int
    updated: int
    expires: int | None
    pending: bool
    """Whether embeddings of it are still owed."""
    embedded: bool
    """Whether an enabled space exists at all."""


Revision: TypeAlias = Callable[[Entry, Draft | None], Draft]
"""Builds the draft that follows a live entry. Runs inside the transaction: pure, and maybe more than once."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's promise that two saves are the same. `digest` is of the request's meaning."""

    principal: int
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Job:
    """One embedding owed: chunk `chunk` in space `space`.

    `(id, hash, space)` is the fencing token: a result is dropped when no such job is left.
    """

    id: int
    chunk: int
    space: int
    hash: bytes
    """SHA-256 of `text`."""
    text: str
    """Header and chunk: what is embedded."""
    entry: str
    collection: str
    attempts: int = 0


class Change(StrEnum):
    """What a save did."""

    CREATED = "created"
    VERSION = "version"
    ATTRIBUTES = "attributes"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The outcome of a save. `jobs` are the embeddings it made owed."""

    id: str
    version: int
    change: Change
    jobs: tuple[Job, ...] = ()
    pending: bool = False
    """Whether the entry owes embeddings now, from this save or an earlier one."""
    embedded: bool = False
    """Whether an enabled space exists at all."""


class SpaceState(StrEnum):
    """building → active → retired. Only one space is active, and only an active one is searched."""

    BUILDING = "building"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One model's vectors. `dimension` and `canary` are unknown until the first successful probe."""

    id: int
    fingerprint: Mapping[str, str | int]
    generation: int
    """Counts up when a model changed silently: same fingerprint, other vectors."""
    state: SpaceState
    enabled: bool
    dimension: int | None
    canary: Vectors | None
    """Vector of the canary text, `(dimension,)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which entries a question may find. The namespace is never optional."""

    namespace: str
    collections: tuple[str, ...] | None = None
    """None: all of the namespace."""
    session: str | None = None
    """Entries of this session and entries of none."""
    agent: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    """All of them."""
    trust: tuple[Trust, ...] = TRUST_ORDER
    since: int | None = None
    until: int | None = None
    """Bounds of `updated`: `since <= updated < until`."""


class WordHit(NamedTuple):
    """A chunk found by words. `score` grows with relevance."""

    chunk: int
    entry: str
    score: float


class VectorHit(NamedTuple):
    """A chunk found by meaning. `distance` is cosine, 0 to 2."""

    chunk: int
    entry: str
    distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedChunk:
    """The present text of a live, unexpired chunk with its entry."""

    chunk: int
    start: int
    end: int
    content: str
    entry: Entry
    """Without its content: `entry.content` is empty here."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Jobs in the table. `oldest` is when the oldest pending one was made."""

    pending: int
    buried: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class BuriedRow:
    """A job given up."""

    job: int
    entry: str
    collection: str
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Counts that prove the invariant, or where it is broken. All but the first three should be 0."""

    entries: int
    chunks: int
    vectors: int
    unowed_chunks: int
    """Live chunks of an enabled space with neither vector nor job."""
    orphan_vectors: int
    orphan_jobs: int
    orphan_chunks: int
    """Chunks of an entry version that is not live."""
    words_without_chunk: int
    chunks_without_words: int

    @property
    def violations(self) -> int:
        return (
            self.unowed_chunks
            + self.orphan_vectors
            + self.orphan_jobs
            + self.orphan_chunks
            + self.words_without_chunk
            + self.chunks_without_words
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Sizes and counts for status."""

    path: str
    engine: str
    entries: Mapping[str, int] = field(default_factory=dict)
    """Live entries a collection."""
    chunks: int = 0
    vectors: int = 0
    bytes: int = 0
    wal_bytes: int = 0
    commits: int = 0


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


class Storage(JobStorage, Protocol):
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
        self, wanted: Filter, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """A page of live entries, newest first, and the cursor of the next page."""
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

    async def census(self) -> Census: ...

    async def stats(self) -> StorageStats: ...

    async def secret(self) -> bytes:
        """32 random bytes, made once for the installation."""
        ...

    async def close(self) -> None: ...
