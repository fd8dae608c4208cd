"""Finding what may answer a question: words and meaning in parallel, fused, ranked and judged."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge as merge_sorted
from itertools import accumulate
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

import structlog

from agentctx.config.embedding import RagSettings
from agentctx.embedding_providers.base import Vectors
from agentctx.errors import DeadlineExceeded, ProviderFailed, StorageCorrupt, StorageFailed
from agentctx.rag.cues import placed
from agentctx.rag.fuse import Candidate, fuse, merge
from agentctx.rag.prompt import queries_of
from agentctx.rag.question import Question
from agentctx.rag.ranking import Pool, rank, said_by, with_neighbours, words_of
from agentctx.rag.relevance import Calibration, relevance
from agentctx.rag.word_match import QuestionWords
from agentctx.storage.records import Near, NearestChunk, ResolvedChunk, TermCounts, WordHit
from agentctx.storage.search import SearchStorage
from agentctx.telemetry.base import Telemetry

_log = structlog.get_logger("agentctx.rag")

Words: TypeAlias = asyncio.Future[list[WordHit]]

LEAST_POOL = 40
"""Candidates each side brings at least: 30 to 100 measure alike, and fewer cost less."""
POOL_PER_RESULT = 4
NOT_COUNTED = TermCounts(0, {})
READ = 20
"""Candidates whose texts are read and judged, at least; with 40 recall@10 on LoCoMo is .004 better."""
SPARE = 12
"""Candidates read beyond the limit, for those that are left out once they have been read."""


class QueryEmbedder(Protocol):
    """What retrieval needs of an embedder."""

    async def embed_query(self, text: str) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class Serving:
    """Which space answers questions now, by whose vectors; if none does, `reason` says why.

    `calibration` is that of its model; None until there is one.
    """

    space: int | None
    reason: str | None = None
    embedder: QueryEmbedder | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """All candidates of a question, best first, and the texts of those that were read and judged.

    The first `judged` candidates were; one of these without a text has changed meanwhile. `degraded` says why
    meaning had no part, if it had none.
    """

    candidates: Sequence[Candidate]
    texts: Mapping[int, ResolvedChunk]
    judged: int
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class Legs:
    """What words and vectors found: hits, exact distances of what only the words found, and the query.

    `counts` say how common the terms of the question are.
    """

    words: Sequence[WordHit]
    counts: TermCounts = NOT_COUNTED
    nearest: Sequence[NearestChunk] = ()
    exact: Mapping[int, float] = field(default_factory=dict)
    query: Vectors | None = None
    space: int | None = None
    degraded: str | None = None


class _Degraded(Exception):
    """Meaning cannot take part; the message is for the user."""


class Retrieval:
    """Searches by words and by meaning. Without a model, while it is down or slow, by words alone."""

    def __init__(
        self,
        storage: SearchStorage,
        serving: Callable[[], Serving],
        settings: Callable[[], RagSettings],
        telemetry: Telemetry,
    ) -> None:
        self._storage = storage
        self._serving = serving
        self._settings = settings
        self._telemetry = telemetry
        self._vectors: OrderedDict[tuple[int, str], Vectors] = OrderedDict()
        self._embedding: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def find(self, question: Question, pool: int) -> Retrieved:
        """Everything that may answer a question. Each side brings `pool` candidates of each namespace.

        A long prompt asks several questions, of which the most relevant answers count.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        texts = queries_of(question.text)
        asked = [replace(question, wanted=wanted, text=text) for wanted in question.filters for text in texts]
        legs = await asyncio.gather(*(self.legs(each, pool) for each in asked))
        found = await asyncio.gather(*map(self._judged, asked, legs))
        by_namespace = (found[at : at + len(texts)] for at in range(0, len(found), len(texts)))
        return interleaved([best_of_each(each) for each in by_namespace])

    async def legs(self, question: Question, pool: int) -> Legs:
        """What each side finds. Raises as `find`."""
        words = asyncio.ensure_future(self._words(question, pool))
        counts = asyncio.ensure_future(self._counts(question.text))
        try:
            meaning = await self._meaning(question, words, pool)
            hits = await (words if meaning.degraded is not None else _readable(words))
            return replace(meaning, words=hits, counts=await counts)
        finally:
            words.cancel()
            counts.cancel()

    async def _judged(self, question: Question, legs: Legs) -> Retrieved:
        """What was found, fused, read, ranked and judged."""
        words, weight = QuestionWords(question.text), self._settings().dense_weight
        rarity = words.rarity(legs.counts)
        with self._telemetry.stage("fuse"):
            fused = fuse(merge(legs.words, legs.nearest, legs.exact), weight, sum(rarity.values()))
        read = fused[: max(READ, question.limit + SPARE)]
        with self._telemetry.stage("resolve"):
            around = await self._storage.resolve_with_turns(
                [each.chunk for each in read], question.wanted, _near(legs)
            )
        with self._telemetry.stage("rank"):
            said = {**around.beside, **{chunk: said_by(text) for chunk, text in around.texts.items()}}
            present = [each for each in read if each.chunk in said]
            members = with_neighbours(present, around.turns, said, around.distances)
            of_each = words.found_in_each([words_of(each) for each in said.values()])
            found = dict(zip(said, of_each, strict=True))
            ranked = rank(question.text, Pool(members, said, around.turns, found, rarity), weight)
            best = ranked[: question.limit + SPARE]
            ranked = [*best, *(each for each in ranked[len(best) :] if each.chunk in around.texts)]
            with_cues = {each.chunk for each in ranked if said[each.chunk].cues}
            calibration = self._serving().calibration if legs.query is not None else None
            judged = judge(ranked, found, words, legs.query, calibration, with_cues)
            if with_cues and calibration is not None:
                judged = placed(judged, with_cues)
        texts = await self._with_neighbours(around.texts, judged, question)
        judged = [each for each in judged if each.chunk in texts]
        gone = [each for each in read if each.chunk not in texts]
        return Retrieved([*judged, *gone, *fused[len(read) :]], texts, len(judged) + len(gone), legs.degraded)

    async def _with_neighbours(
        self, texts: Mapping[int, ResolvedChunk], judged: Sequence[Candidate], question: Question
    ) -> Mapping[int, ResolvedChunk]:
        """The texts, with the texts of candidates that are only neighbours of hits."""
        missing = [each.chunk for each in judged if each.chunk not in texts]
        if not missing:
            return texts
        with self._telemetry.stage("resolve"):
            return {**texts, **await self._storage.resolve(missing, question.wanted)}

    async def _words(self, question: Question, pool: int) -> list[WordHit]:
        with self._telemetry.stage("words"):
            return await self._storage.by_words(question.text, question.wanted, pool)

    async def _counts(self, question: str) -> TermCounts:
        """How common its terms are; nothing is known where the index of words is damaged."""
        try:
            return await self._storage.term_counts(question)
        except StorageCorrupt:
            return NOT_COUNTED

    async def _meaning(self, question: Question, words: Words, pool: int) -> Legs:
        """What the vectors find; or nothing, and why."""
        most_s = self._settings().deadline_s
        deadline_s = min(most_s, question.deadline_s or most_s)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._nearest(question, words, pool)
        except _Degraded as reason:
            return Legs((), degraded=str(reason))
        except ProviderFailed as error:
            return Legs((), degraded=f"provider_failed: {error.message}")
        except TimeoutError:
            return Legs((), degraded=f"deadline: it took longer than {deadline_s:g} s")
        except (StorageFailed, DeadlineExceeded) as error:
            _log.warning("vector_search_failed", code=error.code, problem=error.message)
            return Legs((), degraded=f"{error.code}: {error.message}")

    async def _nearest(self, question: Question, words: Words, pool: int) -> Legs:
        serving = self._serving()
        if serving.embedder is None or serving.space is None:
            raise _Degraded(serving.reason or "off: no embedding provider is configured")
        query = await self._vector(serving.space, serving.embedder, question.text)
        measured = asyncio.ensure_future(self._measured(serving.space, query, words))
        try:
            with self._telemetry.stage("vectors"):
                nearest = await self._storage.by_vector(serving.space, query, question.wanted, pool)
            exact = await measured
        finally:
            measured.cancel()
        return Legs((), nearest=nearest, exact=exact, query=query, space=serving.space)

    async def _measured(self, space: int, query: Vectors, words: Words) -> dict[int, float]:
        """Distances of what the words found, looked up while the vectors are searched."""
        found = [hit.chunk for hit in await _readable(asyncio.shield(words))]
        if not found:
            return {}
        with self._telemetry.stage("distances"):
            return await self._storage.distances(space, query, found)

    async def _vector(self, space: int, embedder: QueryEmbedder, text: str) -> Vectors:
        # Several namespaces ask the same at once: the first embeds it for all of them.
        async with self._embedding.setdefault((space, text), asyncio.Lock()):
            cached = self._vectors.get((space, text))
            if cached is not None:
                self._vectors.move_to_end((space, text))
                return cached
            with self._telemetry.embedding("query", 1):
                vector = await embedder.embed_query(text)
            self._keep(space, text, vector)
        return vector

    def _keep(self, space: int, text: str, vector: Vectors) -> None:
        most = self._settings().cache_entries
        if most:
            self._vectors[space, text] = vector
            if len(self._vectors) > most:
                self._vectors.popitem(last=False)


def _near(legs: Legs) -> Near | None:
    return None if legs.space is None or legs.query is None else Near(legs.space, legs.query)


def judge(
    candidates: Sequence[Candidate],
    found: Mapping[int, frozenset[str]],
    words: QuestionWords,
    query: Vectors | None,
    calibration: Calibration | None,
    with_cues: Collection[int] = (),
) -> list[Candidate]:
    """The candidates in their order, each with its relevance. `found` are the question's words in each.

    `with_cues` are the chunks for which cues count.
    """
    if query is None:
        calibration = None
    level = calibration.level(query) if calibration is not None and query is not None else 0.0
    return [
        each._replace(
            relevance=relevance(
                calibration,
                each.distance,
                level,
                words.count(found[each.chunk]),
                has_cues=each.chunk in with_cues,
            ),
            by_words=calibration is None or each.distance is None,
        )
        for each in candidates
    ]


def best_of_each(found: Sequence[Retrieved]) -> Retrieved:
    """What several questions found, as one: each candidate by its best relevance, the most relevant first."""
    if len(found) == 1:
        return found[0]
    texts = {chunk: text for each in found for chunk, text in each.texts.items()}
    judged = [candidate for each in found for candidate in each.candidates[: each.judged]]
    rest = [candidate for each in found for candidate in each.candidates[each.judged :]]
    best = _first_of_each(sorted(judged, key=lambda candidate: -candidate.relevance))
    others = _first_of_each(rest, known={candidate.chunk for candidate in best})
    degraded = next((each.degraded for each in found if each.degraded), None)
    return Retrieved([*best, *others], texts, len(best), degraded)


def interleaved(found: Sequence[Retrieved]) -> Retrieved:
    """What several namespaces hold, as one ranking by relevance.

    The candidates of a namespace keep their order among themselves, which knows more than their relevance: a
    turn between good ones stands well. So each counts with the best relevance from it on.
    """
    if len(found) == 1:
        return found[0]
    judged = [list(zip(_prospects(each), each.candidates[: each.judged], strict=True)) for each in found]
    best = [candidate for _, candidate in merge_sorted(*judged, key=lambda row: -row[0])]
    rest = [candidate for each in found for candidate in each.candidates[each.judged :]]
    texts = {chunk: text for each in found for chunk, text in each.texts.items()}
    degraded = next((each.degraded for each in found if each.degraded), None)
    return Retrieved([*best, *rest], texts, len(best), degraded)


def _prospects(found: Retrieved) -> list[float]:
    """For each judged candidate the best relevance from it to the end."""
    backwards = accumulate((each.relevance for each in reversed(found.candidates[: found.judged])), max)
    return list(backwards)[::-1]


def _first_of_each(candidates: Iterable[Candidate], known: Collection[int] = ()) -> list[Candidate]:
    first: dict[int, Candidate] = {}
    for candidate in candidates:
        if candidate.chunk not in known:
            first.setdefault(candidate.chunk, candidate)
    return list(first.values())


async def _readable(words: Words) -> list[WordHit]:
    """What the words found; nothing where their index is damaged, which `words_shortfall` reports."""
    try:
        return await words
    except StorageCorrupt as error:
        _log.warning("word_search_failed", code=error.code, problem=error.message)
        return []


def pool_for(limit: int) -> int:
    """How many candidates words and meaning bring each."""
    return max(LEAST_POOL, POOL_PER_RESULT * limit)
