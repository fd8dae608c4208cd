"""What the storage keeps and gives back: drafts, entries, jobs, spaces, filters, hits and counts.

All times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from agentctx.chunking.base import Span
from agentctx.embedding_providers.base import Vectors
from agentctx.wire import Location, Origin, Trust

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
    derived_from: tuple[str, ...] = ()
    """Ids of the entries it was made of: it has the least trust of all."""
    flags: tuple[str, ...] | None = None
    """What its text looks like that an LLM might obey; None: as before."""
    is_held: bool = False
    """Whether it goes into quarantine for that."""


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
    """Whether embeddings of it are still pending."""
    embedded: bool
    """Whether an enabled space exists at all."""

    def next_update(self, now: int) -> int:
        """The time of a change made now: always after the last one, also when the clock went back.

        So the versions of an entry are ordered by time, none precedes its creation, and an import can see
        the newer of two states.
        """
        return max(now, self.updated + 1)


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
    """A pending embedding: chunk `chunk` in space `space`.

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
    """The outcome of a save. `jobs` are the embedding jobs it made."""

    id: str
    version: int
    change: Change
    jobs: tuple[Job, ...] = ()
    pending: bool = False
    """Whether the entry has pending embeddings now, from this save or an earlier one."""
    embedded: bool = False
    """Whether an enabled space exists at all."""
    erased: tuple[str, ...] = ()
    """Expired entries with the same key, or the id of an imported one, which were removed for it."""
    quarantined: bool = False
    """Whether no answer may hold it."""
    redacted: tuple[str, ...] = ()
    """The kinds of secrets that the store cut out before the save."""
    flags: tuple[str, ...] = ()
    """What its text looks like that an LLM might obey, as the store found it."""


class SpaceState(StrEnum):
    """building → active ⇄ kept → retired. Only one space is active, and only an active one is searched."""

    BUILDING = "building"
    ACTIVE = "active"
    KEPT = "kept"
    """It was active, and can be again."""
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
    approved: bool = False
    """Whether the cost of filling it was approved."""
    comparison: Mapping[str, Any] | None = None
    """How it compared with the active space when it was filled, as `Storage.record_comparison` got it."""


@dataclass(frozen=True, slots=True)
class SampledChunk:
    """A live chunk with its text, drawn for a comparison."""

    chunk: int
    entry: str
    namespace: str
    text: str


@dataclass(frozen=True, slots=True)
class Owed:
    """The queue of a space: its pending jobs, its buried jobs, and the size of their texts in UTF-8 bytes."""

    pending: int
    buried: int
    bytes: int


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
    key: str | None = None
    key_prefix: str | None = None
    until: int | None = None
    """Bounds of `updated`: `since <= updated < until`."""
    with_quarantined: bool = False
    """For lists; no answer to a question may hold what is in quarantine."""


class WordHit(NamedTuple):
    """A chunk found by keyword. `score` grows with relevance.

    `by_cue`: a cue has the words, and the chunk is the first of its entry's text.
    """

    chunk: int
    entry: str
    score: float
    by_cue: bool = False


class NearestChunk(NamedTuple):
    """A chunk found by meaning. `distance` is cosine, 0 to 2; `by_cue` as in `WordHit`."""

    chunk: int
    entry: str
    distance: float
    by_cue: bool = False


class TermCounts(NamedTuple):
    """How common the terms of a question are: in how many of the `chunks` of all namespaces each occurs."""

    chunks: int
    counts: Mapping[str, int]


class FoundByWords(NamedTuple):
    """The hits of a keyword search, and how common the terms are that `words.question_terms` finds."""

    hits: list[WordHit]
    counts: TermCounts


Turns: TypeAlias = dict[int, dict[int, int]]
"""The chunks beside a chunk of a conversation: -2 and -1 were said before it, 1 and 2 after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedChunk:
    """The present text of a live, unexpired chunk with its entry."""

    chunk: int
    start: int
    end: int
    content: str
    entry: Entry
    """Without its content: `entry.content` is empty here."""
    location: Location | None = None
    """Where in its file the chunk is, if the entry came from one."""
    before: str = ""
    """The end of the text before it in the file, for its headings."""
    flags: tuple[str, ...] = ()
    """What the entry's text looks like that an LLM might obey."""


class Near(NamedTuple):
    """A vector in a space, to which distances are asked for."""

    space: int
    query: Vectors


class Said(NamedTuple):
    """What counts of a passage when it is ranked. `labels` are key, trigger and tags."""

    entry: str
    text: str
    agent: str = ""
    labels: str = ""
    cues: tuple[str, ...] = ()


class WithTurns(NamedTuple):
    """Chunks by id, and the turns beside them.

    `distances` are exact ones of the turns that were not asked for, where they have a vector. `beside` is
    what these say, unless they are among the texts: enough to rank them, but not checked for damage.
    """

    texts: Mapping[int, ResolvedChunk]
    turns: Turns
    distances: Mapping[int, float]
    beside: Mapping[int, Said] = MappingProxyType({})


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
    """Vectors whose chunk is not live."""
    orphan_jobs: int
    """Jobs without a chunk, or for a space that gets no jobs."""
    orphan_chunks: int
    """Chunks of an entry version that is not live."""
    words_without_chunk: int
    """Chunks that are gone but can still be found by keyword."""
    chunks_without_words: int
    """Live chunks that cannot be found by keyword."""

    def __add__(self, other: Census) -> Census:
        more = asdict(other)
        return Census(**{name: count + more[name] for name, count in asdict(self).items()})

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


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not what was saved. Only a vector has `space` and `chunk`: it can be rebuilt."""

    entry: str
    what: str
    """`entry`, `chunk`, `chunks` or `vector`."""
    space: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class ScrubState:
    """The last full pass of the scrub: when it ended (None: there was none) and how much damage it found."""

    finished: int | None
    damaged: int


@dataclass(frozen=True, slots=True)
class SpaceFault:
    """What is wrong with the vectors of a space. `problem` holds no text of entries."""

    space: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Sizes and counts for status."""

    path: str
    """Of the file, or the address of the server."""
    engine: str
    entries: Mapping[str, int] = field(default_factory=dict)
    """Live entries a collection."""
    chunks: int = 0
    vectors: int = 0
    vector_memory_bytes: int = 0
    """Of the copies of vectors that are searched in memory."""
    bytes: int = 0
    wal_bytes: int = 0
    commits: int = 0
    warnings: tuple[str, ...] = ()
    """How acknowledged saves can be lost, a sentence each."""
