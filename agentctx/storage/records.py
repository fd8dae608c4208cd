"""The storage's records: drafts, entries, jobs, spaces and counts.

All times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.storage.vectors import Vectors
from agentctx.text.chunking.base import Span
from agentctx.wire import Origin, RememberMode, Trust

TRUST_ORDER: tuple[Trust, ...] = ("external", "agent", "operator")
"""From the lowest to the highest. Nothing can raise the trust of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A complete entry to be saved: validated, redacted and chunked."""

    namespace: str
    collection: str
    content: str
    spans: tuple[Span, ...]
    chunking: int
    """Version of the chunking rules."""
    attributes: Mapping[str, Any]
    """JSON values, validated by the collection's model."""
    labels: str = ""
    """Key, trigger and tags, searched in addition to the text."""
    header: str = ""
    """Short context that is embedded in front of every chunk."""
    key: str | None = None
    session: str = ""
    agent: str = ""
    origin: Origin
    trust: Trust
    principal: int
    """The kernel's uid of the process that saved it."""
    expires: int | None = None
    ttl: int | None = None
    """The time from the save to `expires`; None if only the end is known."""
    in_place: bool = False
    """Whether nobody asked for its other attributes: counts, or what a recurrence merges."""
    derived_from: tuple[str, ...] = ()
    """Ids of the entries it was derived from; it gets the lowest trust among them."""
    flags: tuple[str, ...] | None = None
    """The kinds of instructions to an LLM that its text resembles; None leaves the flags unchanged."""
    is_held: bool = False
    """Whether it goes into quarantine because of its flags."""
    remember: RememberMode | None = None
    """How what is captured or imported is remembered; None if somebody saved it on purpose."""


class EntryKey(NamedTuple):
    """The key of an entry, unique in a collection of a namespace."""

    namespace: str
    collection: str
    name: str

    @classmethod
    def of(cls, draft: Draft) -> EntryKey | None:
        return None if draft.key is None else cls(draft.namespace, draft.collection, draft.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version of an entry. The id is the same for all versions; exactly one version is live."""

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
    ttl: int | None = None
    """The time to live that was asked for; None if only its end is known."""
    pending: bool
    """Whether embeddings of it are still pending."""
    embedded: bool
    """Whether any space is enabled."""

    def next_update(self, now: int) -> int:
        """Return the time of a change made now: always after the last one, even if the clock went back.

        So the versions of an entry are ordered by time, none precedes its creation, and an import can tell
        the newer of two states.
        """
        return max(now, self.updated + 1)


Revision: TypeAlias = Callable[[Entry, Draft | None], Draft]
"""Builds the next draft of a live entry. Pure; runs inside the transaction, possibly more than once."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's promise that saves with this key are the same. `digest` covers the request's meaning."""

    principal: int
    key: str
    digest: bytes
    entry_id: str | None = None
    """The id of a new entry that is saved with it; None: a new one."""

    def unreadable(self) -> IdempotencyKey:
        """Return the key as it is stored: a client may have put a secret or a text into it."""
        name = blake2b(self.key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return replace(self, key=name)


FORGOTTEN_DIGEST: Final = b""
"""Replaces the digest of a key when its entry is removed: a late copy of the request must not restore it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A pending embedding: chunk `chunk` in space `space`.

    `(id, hash, space)` is the fencing token: a result is dropped if the job no longer exists.
    """

    id: int
    chunk: int
    space: int
    hash: bytes
    """SHA-256 of `text`."""
    text: str
    """Header and chunk, the text to embed."""
    entry: str
    collection: str
    attempts: int = 0


class Change(StrEnum):
    """The effect of a save."""

    CREATED = "created"
    VERSION = "version"
    """A version with another text."""
    ATTRIBUTES = "attributes"
    """A version with the same content: its chunks keep their ids."""
    IN_PLACE = "in_place"
    """Counts, a renewed ttl or what a recurrence merges: the version stays."""
    NONE = "none"

    @property
    def is_version(self) -> bool:
        """Return whether it adds a version to an entry."""
        return self in {Change.VERSION, Change.ATTRIBUTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOutcome:
    """The outcome of a save. `jobs` are the embedding jobs it created."""

    id: str
    version: int
    change: Change
    jobs: tuple[Job, ...] = ()
    pending: bool = False
    """Whether the entry has pending embeddings, from this save or an earlier one."""
    embedded: bool = False
    """Whether any space is enabled."""
    erased: tuple[str, ...] = ()
    """Ids of expired entries with the same key or imported id that were removed for this save."""
    quarantined: bool = False
    """Whether the entry is in quarantine."""
    closed: tuple[str, ...] = ()
    """Ids of what it supersedes or resolves since this save."""
    redacted: tuple[str, ...] = ()
    """The kinds of secrets that the store redacted before the save."""
    flags: tuple[str, ...] = ()
    """The kinds of instructions to an LLM that its text resembles, as found by the store."""


class ImportOptions(NamedTuple):
    """Under which id and times (milliseconds) a version is imported, and how."""

    entry_id: str
    created: int
    updated: int
    is_held: bool = False
    """It is in quarantine then, even if it existed with the same text."""
    dry_run: bool = False
    """Only return what would be done."""
    include_forgotten: bool = False
    waits: bool = False
    """A new entry waits for a review, and an entry that does not wait stays as it is."""


class SpaceState(StrEnum):
    """building → active ⇄ kept → retired. At most one space is active, and only it is searched."""

    BUILDING = "building"
    ACTIVE = "active"
    KEPT = "kept"
    """Was active and can be activated again."""
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One model's vectors. `dimension` and `canary` are unknown until the first successful probe."""

    id: int
    fingerprint: Mapping[str, str | int]
    generation: int
    """Incremented when a model has changed silently: same fingerprint, different vectors."""
    state: SpaceState
    enabled: bool
    dimension: int | None
    canary: Vectors | None
    """Vector of the canary text, `(dimension,)`."""
    approved: bool = False
    """Whether the cost of filling it was approved."""
    comparison: Mapping[str, Any] | None = None
    """Its comparison with the active space after filling, as passed to `SpaceStorage.record_comparison`."""


@dataclass(frozen=True, slots=True)
class PendingTotal:
    """The numbers of pending and buried jobs of a space, and the size of the pending texts in UTF-8 bytes."""

    pending: int
    buried: int
    bytes: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of jobs in the table. `oldest` is the creation time of the oldest pending job."""

    pending: int
    buried: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class BuriedRow:
    """A buried job."""

    job: int
    entry: str
    collection: str
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Counts that prove the invariant or reveal violations. All but the first three should be 0."""

    entries: int
    chunks: int
    vectors: int
    chunks_without_job: int
    """Live chunks of an enabled space with neither vector nor job."""
    orphan_vectors: int
    """Vectors whose chunk is not live."""
    orphan_jobs: int
    """Jobs without a chunk, or for a space that is not enabled."""
    orphan_chunks: int
    """Chunks of a version that is not live."""
    words_without_chunk: int
    """Removed chunks that keyword search still finds."""
    chunks_without_words: int
    """Live chunks that keyword search cannot find."""

    def __add__(self, other: Census) -> Census:
        more = asdict(other)
        return Census(**{name: count + more[name] for name, count in asdict(self).items()})

    @property
    def violations(self) -> int:
        every: int = sum(asdict(self).values())
        return every - self.entries - self.chunks - self.vectors


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged row. `space` and `chunk` are set only for a vector, which alone can be rebuilt."""

    entry: str
    what: str
    """`entry`, `chunk`, `chunks` or `vector`."""
    space: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class ScrubState:
    """The last full pass of the scrub: its end (None if there was none) and the damaged rows it found."""

    finished: int | None
    damaged: int


@dataclass(frozen=True, slots=True)
class SpaceFault:
    """A fault in the vectors of a space. `problem` contains no entry text."""

    space: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Sizes and counts for status."""

    path: str
    """Path of the file, or address of the server."""
    engine: str
    entries: Mapping[str, int] = field(default_factory=dict)
    """Live entries by collection."""
    chunks: int = 0
    vectors: int = 0
    vector_memory_bytes: int = 0
    """Memory used by the vector caches that are searched."""
    word_memory_bytes: int = 0
    """Memory used by the postings that are searched."""
    bytes: int = 0
    wal_bytes: int = 0
    commits: int = 0
    warnings: tuple[str, ...] = ()
    """One sentence for each way in which acknowledged saves could be lost."""
