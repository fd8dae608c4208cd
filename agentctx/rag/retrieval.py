"""Find passages that may answer a question: keyword and vector search in parallel, fused and ranked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge as merge_sorted
from itertools import accumulate, groupby, repeat
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

import structlog

from agentctx.config.embedding import RagSettings
from agentctx.embedding_providers.base import Vectors
from agentctx.errors import AgentctxError, DeadlineExceeded, ProviderFailed, StorageCorrupt, StorageFailed
from agentctx.rag.cues import placed
from agentctx.rag.fuse import Candidate, fuse, merge
from agentctx.rag.prompt import queries_of
from agentctx.rag.question import Question
from agentctx.rag.ranking import Pool, rank, ranking_text, with_neighbours, words_of
from agentctx.rag.relevance import Calibration, relevance
from agentctx.rag.word_match import QuestionWords
from agentctx.storage.search import (
    NearestChunk,
    QueryVector,
    ResolvedChunk,
    SearchStorage,
    TermCounts,
    WordHit,
    WordResults,
)
from agentctx.telemetry.base import Telemetry

_log = structlog.get_logger("agentctx.rag")

Words: TypeAlias = asyncio.Future[WordResults]

MIN_POOL = 40
"""Minimum number of candidates from each search: 30 to 100 perform alike, and fewer cost less."""
POOL_PER_RESULT = 4
NOT_FOUND = WordResults([], TermCounts(0, {}))
READ = 20
"""Minimum number of candidates that are read and judged; 40 would improve recall@10 on LoCoMo by .004."""
SPARE = 12
"""Number of candidates read beyond the limit, to replace those dropped after reading."""


class QueryEmbedder(Protocol):
    """The part of an embedder that retrieval needs."""

    async def embed_query(self, text: str) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class Serving:
    """The space and embedder that answer questions now; if there is none, `reason` says why.

    `calibration` belongs to the space's model; None until it is calibrated.
    """

    space: int | None
    reason: str | None = None
    embedder: QueryEmbedder | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """All candidates of a question, best first, with the texts of those read and judged.

    The first `judged` candidates were judged; those without a text have changed meanwhile. `degraded` says
    why there was no vector search, if there was none.
    """

    candidates: Sequence[Candidate]
    texts: Mapping[int, ResolvedChunk]
    judged: int
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Results of both searches: the hits, and exact distances of chunks found only by keyword.

    `counts` is the frequency of the question's terms. `near` is the query vector; if there is none,
    `degraded` says why.
    """

    words: Sequence[WordHit] = ()
    counts: TermCounts = NOT_FOUND.counts
    nearest: Sequence[NearestChunk] = ()
    exact: Mapping[int, float] = field(default_factory=dict)
    near: QueryVector | None = None
    degraded: str | None = None


class Retrieval:
    """Searches by keyword and by vector; by keyword alone while the model is missing, down or slow."""

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

    async def search(self, questions: Sequence[Question], pool: int) -> list[SearchResults]:
        """Run both searches for each question; each search yields up to `pool` candidates.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        words: list[Words] = list(map(asyncio.ensure_future, (self._words(each, pool) for each in questions)))
        try:
            found = await asyncio.gather(*map(self._meaning, questions, words, repeat(pool)))
            return await asyncio.gather(*map(_with_words, found, words))
        finally:
            for each in words:
                each.cancel()

    async def rank(self, questions: Sequence[Question], results: Sequence[SearchResults]) -> Retrieved:
        """Merge the results of the questions from `sub_questions` into one ranking. Raises like `search`."""
        found = zip(questions, await asyncio.gather(*map(self._rank, questions, results)), strict=True)
        by_namespace = groupby(found, lambda pair: pair[0].wanted.namespace)
        return interleaved([best_of_each([each for _, each in pairs]) for _, pairs in by_namespace])

    async def _rank(self, question: Question, results: SearchResults) -> Retrieved:
        """Fuse, read, rank and judge the hits."""
        words, weight = QuestionWords(question.text), self._settings().dense_weight
        rarity = words.rarity(results.counts)
        with self._telemetry.stage("fuse"):
            fused = fuse(merge(results.words, results.nearest, results.exact), weight, sum(rarity.values()))
        read = fused[: max(READ, question.limit + SPARE)]
        with self._telemetry.stage("resolve"):
            around = await self._storage.resolve_with_turns(
                [each.chunk for each in read], question.wanted, results.near
            )
        with self._telemetry.stage("rank"):
            said = {**around.beside, **{chunk: ranking_text(text) for chunk, text in around.texts.items()}}
            present = [each for each in read if each.chunk in said]
            members = with_neighbours(present, around.turns, said, around.distances)
            of_each = words.matches_in_each([words_of(each) for each in said.values()])
            found = dict(zip(said, of_each, strict=True))
            ranked = rank(question.text, Pool(members, said, around.turns, found, rarity), weight)
            best = ranked[: question.limit + SPARE]
            ranked = [*best, *(each for each in ranked[len(best) :] if each.chunk in around.texts)]
            with_cues = {each.chunk for each in ranked if said[each.chunk].cues}
            query = None if results.near is None else results.near.query
            calibration = self._serving().calibration if query is not None else None
            judged = judge(ranked, found, words, query, calibration, with_cues)
            if with_cues and calibration is not None:
                judged = placed(judged, with_cues)
        texts = await self._with_neighbours(around.texts, judged, question)
        judged = [each for each in judged if each.chunk in texts]
        gone = [each for each in read if each.chunk not in texts]
        return Retrieved(
            [*judged, *gone, *fused[len(read) :]], texts, len(judged) + len(gone), results.degraded
        )

    async def _with_neighbours(
        self, texts: Mapping[int, ResolvedChunk], judged: Sequence[Candidate], question: Question
    ) -> Mapping[int, ResolvedChunk]:
        """Add the texts of candidates that are only neighbours of hits."""
        missing = [each.chunk for each in judged if each.chunk not in texts]
        if not missing:
            return texts
        with self._telemetry.stage("resolve"):
            return {**texts, **await self._storage.resolve(missing, question.wanted)}

    async def _words(self, question: Question, pool: int) -> WordResults:
        with self._telemetry.stage("words"):
            return await self._storage.by_words(question.text, question.wanted, pool)

    async def _meaning(self, question: Question, words: Words, pool: int) -> SearchResults:
        """Search by vector; on failure, return no hits and the reason."""
        serving, max_s = self._serving(), self._settings().deadline_s
        if serving.embedder is None or serving.space is None:
            return SearchResults(degraded=serving.reason or "off: no embedding provider is configured")
        deadline_s = min(max_s, question.deadline_s or max_s)
        try:
            async with asyncio.timeout(deadline_s):
                query = await self._vector(serving.space, serving.embedder, question.text)
                with self._telemetry.stage("vectors"):
                    nearest = await self._storage.by_vector(serving.space, query, question.wanted, pool)
                near = QueryVector(serving.space, query)
                return SearchResults(
                    nearest=nearest, exact=await self._measured(near, words, nearest), near=near
                )
        except (ProviderFailed, StorageFailed, DeadlineExceeded, TimeoutError) as error:
            return SearchResults(degraded=_reason(error, deadline_s))

    async def _measured(
        self, near: QueryVector, words: Words, nearest: Sequence[NearestChunk]
    ) -> Mapping[int, float]:
        """Return the exact distances of chunks found only by keyword."""
        measured = {hit.chunk for hit in nearest if not hit.by_cue}
        found = (await _readable(asyncio.shield(words))).hits
        rest = list(dict.fromkeys(hit.chunk for hit in found if hit.chunk not in measured))
        if not rest:
            return {}
        with self._telemetry.stage("distances"):
            return await self._storage.distances(near.space, near.query, rest)

    async def _vector(self, space: int, embedder: QueryEmbedder, text: str) -> Vectors:
        # The namespaces ask the same question concurrently: the first one embeds it for all.
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
        maximum = self._settings().cache_entries
        if maximum:
            self._vectors[space, text] = vector
            if len(self._vectors) > maximum:
                self._vectors.popitem(last=False)


def sub_questions(question: Question) -> list[Question]:
    """Expand a question into one per namespace and query of the prompt.

    A long prompt has several queries; the most relevant of their answers count.
    """
    texts = queries_of(question.text)
    return [replace(question, wanted=wanted, text=text) for wanted in question.filters for text in texts]


def judge(
    candidates: Sequence[Candidate],
    found: Mapping[int, frozenset[str]],
    words: QuestionWords,
    query: Vectors | None,
    calibration: Calibration | None,
    with_cues: Collection[int] = (),
) -> list[Candidate]:
    """Set each candidate's relevance, keeping the order. `found` holds the question's words in each chunk.

    `with_cues` are the chunks whose cues count.
    """
    if query is None:
        calibration = None
    level = calibration.level(query) if calibration is not None and query is not None else 0.0
    judged = []
    for chunk, entry, word_score, distance, score, *_, by_cue in candidates:
        probability = relevance(
            calibration, distance, level, words.count(found[chunk]), has_cues=chunk in with_cues
        )
        by_words = calibration is None or distance is None
        judged.append(Candidate(chunk, entry, word_score, distance, score, probability, by_words, by_cue))
    return judged


def best_of_each(found: Sequence[Retrieved]) -> Retrieved:
    """Merge the results of several queries: each candidate at its best relevance, most relevant first."""
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
    """Merge the results of several namespaces into one ranking by relevance.

    The candidates of a namespace keep their order, which reflects more than relevance: a turn between good
    ones ranks well. So each candidate is ranked by the best relevance from its own position to the end.
    """
    if len(found) == 1:
        return found[0]
    judged = [list(zip(_best_remaining(each), each.candidates[: each.judged], strict=True)) for each in found]
    best = [candidate for _, candidate in merge_sorted(*judged, key=lambda row: -row[0])]
    rest = [candidate for each in found for candidate in each.candidates[each.judged :]]
    texts = {chunk: text for each in found for chunk, text in each.texts.items()}
    degraded = next((each.degraded for each in found if each.degraded), None)
    return Retrieved([*best, *rest], texts, len(best), degraded)


def _best_remaining(found: Retrieved) -> list[float]:
    """Return, for each judged candidate, the best relevance from its position to the end."""
    backwards = accumulate((each.relevance for each in reversed(found.candidates[: found.judged])), max)
    return list(backwards)[::-1]


def _first_of_each(candidates: Iterable[Candidate], known: Collection[int] = ()) -> list[Candidate]:
    first: dict[int, Candidate] = {}
    for candidate in candidates:
        if candidate.chunk not in known:
            first.setdefault(candidate.chunk, candidate)
    return list(first.values())


async def _with_words(results: SearchResults, words: Words) -> SearchResults:
    """Add the keyword hits. Without a vector search, the keyword index must be readable."""
    found = await (words if results.near is None else _readable(words))
    return replace(results, words=found.hits, counts=found.counts)


async def _readable(words: Words) -> WordResults:
    """Return the keyword hits; none if the index is damaged, which `words_shortfall` reports."""
    try:
        return await words
    except StorageCorrupt as error:
        _log.warning("word_search_failed", code=error.code, problem=error.message)
        return NOT_FOUND


def _reason(error: Exception, deadline_s: float) -> str:
    """Return a readable reason for the failure of the vector search."""
    if isinstance(error, TimeoutError):
        return f"deadline: it took longer than {deadline_s:g} s"
    if isinstance(error, ProviderFailed):
        return f"provider_failed: {error.message}"
    assert isinstance(error, AgentctxError)  # noqa: S101 - the caller catches no others
    _log.warning("vector_search_failed", code=error.code, problem=error.message)
    return f"{error.code}: {error.message}"


def pool_for(limit: int) -> int:
    """Return how many candidates each search yields."""
    return max(MIN_POOL, POOL_PER_RESULT * limit)
