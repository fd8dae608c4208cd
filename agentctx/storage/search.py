"""Storage interface for answering questions: filters, hits and chunks with their current text."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from agentctx import wire
from agentctx.errors import InvalidInput
from agentctx.storage.passage_traits import PassageTraits, WordFinder
from agentctx.storage.records import TRUST_ORDER, Entry
from agentctx.storage.vectors import Vectors
from agentctx.wire import Trust

T = TypeVar("T")


MAX_LISTED: Final[Mapping[str, int]] = {"tags": 64, "collections": 128, "namespaces": 128}
"""How many values the lists of a filter may have. Each adds to a statement."""


def check_listed(**lists: Sequence[str] | None) -> None:
    """Raise `InvalidInput` if a list of a filter, given by its name, is too long."""
    for name, values in lists.items():
        if len(values or ()) > (most := MAX_LISTED[name]):
            raise InvalidInput(
                f"Too many {name} in a filter: {len(values or ())}.", hint=f"Name at most {most}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The entries that a question may find. The namespace is mandatory.

    Raises:
        InvalidInput: a list has more than `MAX_LISTED` values.
    """

    namespace: str
    collections: tuple[str, ...] | None = None
    """None: all collections of the namespace."""
    session: str | None = None
    """Entries of this session and entries without a session."""
    agent: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    """Entries that have all of these tags."""
    trust: tuple[Trust, ...] = TRUST_ORDER
    since: int | None = None
    key: str | None = None
    key_prefix: str | None = None
    until: int | None = None
    """Bounds of `updated`: `since <= updated < until`."""
    derived_from: str | None = None
    """For listings: entries that were made from this one."""
    with_quarantined: bool = False
    """For listings; answers to questions never include quarantined entries."""
    waiting: bool | None = False
    """For listings: True: only entries that wait for a review; None: these, too."""
    with_withdrawn: bool = False
    """For listings: also entries whose file is gone or says something else."""
    with_superseded: bool = False
    """Also entries that others supersede or resolve."""
    only_marked: bool = False
    """Only entries whose file could not be seen, is gone or says something else."""

    def __post_init__(self) -> None:
        check_listed(collections=self.collections, tags=self.tags)


class WordHit(NamedTuple):
    """A chunk found by keyword. `score` increases with relevance.

    `cue` is the chunk of the cue that has the words, and `chunk` then the first of the entry's text; 0 if
    it is the text itself that has them.
    """

    chunk: int
    entry: str
    score: float
    cue: int = 0


class NearestChunk(NamedTuple):
    """A chunk found by vector. `distance` is the cosine distance, 0 to 2; `cue` as in `WordHit`."""

    chunk: int
    entry: str
    distance: float
    cue: int = 0


class TermCounts(NamedTuple):
    """How many of the `chunks` of all namespaces contain each term of a question."""

    chunks: int
    counts: Mapping[str, int]


class WordResults(NamedTuple):
    """The hits of a keyword search, and the frequency of the terms from `words.question_terms`."""

    hits: list[WordHit]
    counts: TermCounts


Hit = TypeVar("Hit", WordHit, NearestChunk)
CUE_OVERFETCH: Final = 3
"""Factor by which more hits are requested if several belong to one entry."""
TURNS_OF: Final = "observation"
"""The collection whose sessions are conversations."""
REACH: Final = 2
"""How many turns are returned in each direction."""
Neighbours: TypeAlias = dict[int, dict[int, int]]
"""The chunks around each chunk of a conversation, by offset: -2 and -1 precede it, 1 and 2 follow it."""


class SaidAround(NamedTuple):
    """The chunk of an entry, and those of the entries said before and after it, nearest first.

    `turn` is None for an entry of several chunks, which is long enough to be read without its neighbours.
    """

    turn: int | None
    before: Sequence[int | None]
    after: Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedChunk:
    """A live, unexpired chunk with its current text and its entry."""

    chunk: int
    start: int
    end: int
    content: str
    entry: Entry
    """The entry without its content: `entry.content` is empty."""
    location: wire.Location | None = None
    """The location of the chunk in its file, if the entry came from one."""
    before: str = ""
    """The text that precedes the chunk in the file (its end only), for finding headings."""
    flags: tuple[str, ...] = ()
    """The kinds of instructions to an LLM that the entry's text resembles."""
    stale: str | None = None
    """Why the entry's file could not be seen when it was last looked at, if so."""
    distance: float | None = None
    """In an answer, the cosine distance to the question; None if the chunk was not measured."""
    relevance: float = 0.0
    """In an answer, the probability that the chunk answers the question, 0 to 1."""

    @property
    def source_id(self) -> str:
        return self.entry.key or self.entry.id


class ChunksWithTurns(NamedTuple):
    """Chunks by id with the turns around them, both as ranking sees them: unchecked for damage.

    `distances` maps each turn that was not asked for to its distance, rounded like `Distances`, if it has a
    vector.
    """

    traits: Mapping[int, PassageTraits]
    turns: Neighbours
    distances: Mapping[int, float]


class SearchWords(NamedTuple):
    """Asks for what `SearchStorage.by_words` returns; nothing, if the index is damaged (`keyword_gap`)."""

    question: str
    wanted: Filter
    limit: int


class Nearest(NamedTuple):
    """Asks for what `SearchStorage.by_vector` returns."""

    query: Vectors
    wanted: Filter
    limit: int


class Distances(NamedTuple):
    """Asks for what `SearchStorage.distances` returns, rounded to .01 or better."""

    query: Vectors
    chunks: Sequence[int]


class WithTurns(NamedTuple):
    """Asks for chunks as `ChunksWithTurns`: also the turns around those in a conversation.

    Only live, unexpired turns within the filter are returned, up to two in each direction. Without a `query`
    vector they are not measured. `words` finds the words of the question.
    """

    chunks: Sequence[int]
    wanted: Filter
    query: Vectors | None
    words: WordFinder


class Texts(NamedTuple):
    """Asks for what `SearchStorage.resolve` returns."""

    chunks: Sequence[int]
    wanted: Filter


Read: TypeAlias = SearchWords | Nearest | Distances | WithTurns | Texts
Steps: TypeAlias = Generator[Read, Any, T]
"""Decisions between reads: yields what to read next, receives it, and returns the result. It does no I/O."""


@dataclass(frozen=True, slots=True)
class SampledChunk:
    """A live chunk with its text, sampled for a comparison."""

    chunk: int
    entry: str
    namespace: str
    text: str


def neighbours(rows: Mapping[int, SaidAround]) -> Neighbours:
    """Return the turns beside those chunks that are turns of a conversation."""
    beside = {chunk: _beside(row) for chunk, row in rows.items()}
    # One or two entries of a session are notes, not a conversation.
    return {chunk: others for chunk, others in beside.items() if len(others) > 1}


def _beside(row: SaidAround) -> dict[int, int]:
    if row.turn is None:
        return {}
    before = {-at: turn for at, turn in enumerate(row.before, 1)}
    after = dict(enumerate(row.after, 1))
    return {at: turn for at, turn in sorted((before | after).items()) if turn is not None}


def best_of(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """Return the hits of the first `limit` chunks in order: of each the best by text and by a cue."""
    chunks = set(list(dict.fromkeys(hit.chunk for hit in hits))[:limit])
    best: dict[tuple[int, bool], Hit] = {}
    for hit in hits:
        if hit.chunk in chunks:
            best.setdefault((hit.chunk, bool(hit.cue)), hit)
    return list(best.values())


def _one(read: Read) -> Steps[Any]:
    return (yield read)


class SearchStorage(Protocol):
    """Finds chunks and resolves them to their current text."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        """Return the best BM25 hits for up to `limit` chunks: per chunk, one by text and one by a cue.

        All characters of the question are text, never syntax.
        """

    async def by_vector(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[NearestChunk]:
        """Return the nearest hits in a space, ascending, for up to `limit` chunks, by text and by cue."""
        hits: list[NearestChunk] = await self.follow(partial(_one, Nearest(query, wanted, limit)), space)
        return hits

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Return the exact distances of the chunks that have a vector in the space."""

    async def newest(self, wanted: Filter, limit: int) -> list[tuple[int, str]]:
        """Return up to `limit` chunks of texts within the filter, each with its entry, newest entry first."""

    async def count_entries(self, namespace: str) -> int:
        """Return the number of live entries in a namespace."""

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        """Return the chunks that are still live, unexpired and within the filter, with their current text.

        Cues are omitted, because their text is never shown.
        """
        found: dict[int, ResolvedChunk] = await self.follow(partial(_one, Texts(chunks, wanted)), None)
        return found

    async def follow(self, steps: Callable[[], Steps[T]], space: int | None) -> T:
        """Return the result of the steps, whose reads are made at once: one visit to the database.

        Distances are measured in `space`; without it, steps must not ask for any. The steps may run in
        another thread, and again after a lost connection.
        """

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        """Sample up to `limit` live chunks evenly across namespaces; repeatable while nothing changes."""

    @property
    def has_words_in_memory(self) -> bool:
        """Whether steps should search by keyword, since that takes less than a visit of its own."""

    @property
    def keyword_gap(self) -> str | None:
        """What keyword search may miss now; None while the keyword index is complete.

        Updated at startup, by each census and rebuild, and by a search that finds damage.
        """
