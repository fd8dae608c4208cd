"""Find passages that may answer a question: keyword and vector search in parallel, fused and ranked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge as merge_sorted
from itertools import accumulate
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

import structlog

from agentctx.config.embedding import RagSettings
from agentctx.errors import AgentctxError, DeadlineExceeded, ProviderFailed, StorageCorrupt, StorageFailed
from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.finding import Ranking, SearchInput, Stopwatch
from agentctx.service.rag.periods import day_of, periods_in
from agentctx.service.rag.prompt import is_short, parts_of, queries_of
from agentctx.service.rag.question import Question
from agentctx.service.rag.ranking import searched_texts
from agentctx.service.rag.relevance import Calibration
from agentctx.service.rag.spelling import corrected, unfamiliar
from agentctx.service.rag.unmeasured import leader, leader_first
from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.search import NearestChunk, SearchStorage, Steps, TermCounts, WordResults
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import Telemetry
from agentctx.times import Clock, wall_clock

_log = structlog.get_logger("agentctx.rag")

T = TypeVar("T")

MIN_POOL = 30
"""Minimum number of candidates from each search. In large memories, 30 to 100 perform alike; in small ones,
more than 30 find less, because nearness is scaled within the pool."""
POOL_PER_RESULT = 4
MANY_CHUNKS = 30_000
"""From this many chunks on, words and vectors are searched at the same time."""

HEAD_START_S = 0.001
"""How long the model's thread has the interpreter for itself, to prepare the question: .2 ms."""


class QueryEmbedder(Protocol):
    """The part of an embedder that retrieval needs."""

    async def embed_query(self, text: str) -> Vectors: ...


class PassageJudge(Protocol):
    """The part of `embedding.judge` that injection needs."""

    async def scores(self, prompt: str, passages: Sequence[str]) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class ServingModel:
    """The space and embedder that answer questions now; if there is none, `reason` says why.

    `calibration` belongs to the space's model; None until it is calibrated. `judge` reads passages with the
    question, if there is one for this model.
    """

    space: int | None
    reason: str | None = None
    embedder: QueryEmbedder | None = None
    calibration: Calibration | None = None
    judge: PassageJudge | None = None


class Retrieval:
    """Searches by keyword and by vector; by keyword alone while the model is missing, down or slow."""

    def __init__(
        self,
        storage: SearchStorage,
        serving: Callable[[], ServingModel],
        settings: Callable[[], RagSettings],
        telemetry: Telemetry,
        clock: Clock = wall_clock,
    ) -> None:
        self._clock = clock
        self._storage = storage
        self._serving = serving
        self._settings = settings
        self._telemetry = telemetry
        self._chunks = 0
        """The number of chunks in all namespaces at the last question."""
        self._vectors: OrderedDict[tuple[int, str], Vectors] = OrderedDict()
        self._embedding: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def find(self, question: Question, pool: int, steps: Callable[[SearchInput], Steps[T]]) -> T:
        """Return the result of the steps for a question to one namespace; each search yields up to `pool`.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        serving, deadline_s, stopwatch = self._serving(), self.deadline_s(question), Stopwatch()
        calibration, space = serving.calibration, serving.space
        searching = (
            None if self._storage.has_words_in_memory else asyncio.ensure_future(self._words(question, pool))
        )
        asked: SearchInput | None = None
        try:
            if question.action:  # meaning does not help to judge it (docs/relevance.md), and costs more
                reason = None
            elif serving.embedder is None or space is None:
                reason = serving.reason or "off: no embedding provider is configured"
            else:
                try:
                    async with asyncio.timeout(deadline_s):
                        embedding = asyncio.ensure_future(
                            self._vector(space, serving.embedder, question.text)
                        )
                        # The model's thread begins before this one goes on: then both work at the same time.
                        await asyncio.wait([embedding], timeout=HEAD_START_S)
                        asked = self._input(question, pool, stopwatch)
                        query = await embedding
                        known = replace(
                            await self._searched(asked, searching, space, query),
                            query=query,
                            calibration=calibration if calibration and calibration.fits(query) else None,
                        )
                        return await self._storage.follow(partial(steps, known), space)
                except (ProviderFailed, StorageFailed, DeadlineExceeded, TimeoutError) as error:
                    reason = _reason(error, deadline_s)
            asked = asked or self._input(question, pool, stopwatch)
            known = replace(asked, found=await searching if searching else None, degraded=reason)
            return await self._storage.follow(partial(steps, known), None)
        finally:
            if searching:
                searching.cancel()
            for stage, began, seconds in stopwatch.measured:
                self._telemetry.passed(stage, began, seconds)

    def deadline_s(self, question: Question) -> float:
        """Return the seconds that a question may take: its own limit or the setting, whichever is less."""
        maximum = self._settings().deadline_s
        return min(maximum, question.deadline_s or maximum)

    async def _words(self, question: Question, pool: int) -> WordResults:
        with self._telemetry.stage("words"):
            found = await self._storage.by_words(question.text, question.filter, pool)
        self._chunks = found.counts.chunks
        return found

    async def _searched(
        self, asked: SearchInput, words: asyncio.Future[WordResults] | None, space: int, query: Vectors
    ) -> SearchInput:
        """Add the hits of the keyword search in flight and, in a large memory, of a vector search beside it.

        Without a keyword search in flight, the steps do both.
        """
        if words is None:
            return asked
        # A second visit to the database costs more than it saves while words take little.
        is_parallel = self._chunks >= MANY_CHUNKS and not words.done()
        nearest = await self._nearest(space, query, asked.question, asked.pool) if is_parallel else None
        return replace(asked, found=await self._readable(asyncio.shield(words)), nearest=nearest)

    async def _readable(self, words: asyncio.Future[WordResults]) -> WordResults:
        """Return the keyword hits; none if the index is damaged, which `keyword_gap` reports."""
        try:
            return await words
        except StorageCorrupt as error:
            _log.warning("word_search_failed", code=error.code, problem=error.message)
            return WordResults([], TermCounts(0, {}))

    def _input(self, question: Question, pool: int, stopwatch: Stopwatch) -> SearchInput:
        return SearchInput(
            question=question,
            pool=pool,
            dense_weight=self._settings().dense_weight,
            words=QuestionWords(question.text),
            periods=periods_in(question.text, day_of(self._clock())),
            stopwatch=stopwatch,
        )

    async def _nearest(self, space: int, query: Vectors, question: Question, pool: int) -> list[NearestChunk]:
        with self._telemetry.stage("vectors"):
            return await self._storage.by_vector(space, query, question.filter, pool)

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


def sub_questions(question: Question, *, in_parts: bool = False) -> list[Question]:
    """Expand a question into one per namespace and query of the prompt; `in_parts`, also per thing it names.

    The most relevant of their answers count.
    """
    tries = dict.fromkeys(queries_of(question.text), 1)
    if in_parts:
        parts = parts_of(question.text)
        tries |= {part: len(parts) for part in parts if part not in tries}
    return [
        replace(question, filter=each, text=text, tries=number)
        for each in question.filters
        for text, number in tries.items()
    ]


def merged(questions: Sequence[Question], rankings: Sequence[Ranking]) -> Ranking:
    """Merge what was found for the questions from `sub_questions` into one ranking."""
    by_namespace: dict[str, list[tuple[int, Ranking]]] = {}
    for question, each in zip(questions, rankings, strict=True):
        by_namespace.setdefault(question.filter.namespace, []).append((question.tries, each))
    merge = interleaved([_with_parts(some) for some in by_namespace.values()])
    # The words of different texts cannot be compared, so those of the first decide, in all namespaces.
    first = (
        each for question, each in zip(questions, rankings, strict=True) if question.text == questions[0].text
    )
    leads = leader([candidate for each in first for candidate in each.rated])
    return replace(merge, rated=leader_first(merge.rated, leads))


def _with_parts(found: Sequence[tuple[int, Ranking]]) -> Ranking:
    """Merge what was found, given with the tries: parts of a prompt do not change the order of the whole."""
    whole = best_of_each([each for tries, each in found if tries == 1])
    if all(tries == 1 for tries, _ in found):
        return whole
    rank = {candidate.chunk: at for at, candidate in enumerate(whole.rated)}
    both = best_of_each([each for _, each in found])
    return replace(both, rated=sorted(both.rated, key=lambda each: rank.get(each.chunk, len(rank))))


def without_typing_errors(text: str, ranking: Ranking) -> str | None:
    """Return a short question as it was meant, by the words of what was found; None if it has no errors."""
    if ranking.degraded is not None or not is_short(text):
        return None
    unknown = unfamiliar(text, ranking.words)
    if not unknown:
        return None
    return corrected(text, unknown, ["\n".join(searched_texts(each)) for each in ranking.texts.values()])


def best_of_each(rankings: Sequence[Ranking]) -> Ranking:
    """Merge the results of several queries: each candidate at its best relevance, most relevant first."""
    if len(rankings) == 1:
        return rankings[0]
    rated = (candidate for each in rankings for candidate in each.rated)
    best = _first_of_each(sorted(rated, key=lambda candidate: -candidate.relevance))
    best = [each._replace(behind=min(_behind(each.chunk, rankings))) for each in best]
    rest = (candidate for each in rankings for candidate in each.rest)
    return _together(rankings, best, _first_of_each(rest, known={candidate.chunk for candidate in best}))


def interleaved(rankings: Sequence[Ranking]) -> Ranking:
    """Merge the results of several namespaces into one ranking by relevance.

    The candidates of a namespace keep their order, which reflects more than relevance: a turn between good
    ones ranks well. So each candidate is ranked by the best relevance from its own position to the end.
    """
    if len(rankings) == 1:
        return rankings[0]
    rated = []
    for each in rankings:
        best_remaining = list(accumulate((one.relevance for one in reversed(each.rated)), max))[::-1]
        rated.append(list(zip(best_remaining, each.rated, strict=True)))
    best = [candidate for _, candidate in merge_sorted(*rated, key=lambda row: -row[0])]
    return _together(rankings, best, [candidate for each in rankings for candidate in each.rest])


def _behind(chunk: int, rankings: Sequence[Ranking]) -> Iterator[float]:
    return (each.behind for ranking in rankings for each in ranking.rated if each.chunk == chunk)


def _together(rankings: Sequence[Ranking], rated: list[Candidate], rest: list[Candidate]) -> Ranking:
    texts = {chunk: text for each in rankings for chunk, text in each.texts.items()}
    degraded = next((each.degraded for each in rankings if each.degraded), None)
    words = frozenset[str]().union(*(each.words for each in rankings))
    return Ranking(rated, rest, texts, degraded, rankings[0].level, words)


def _first_of_each(candidates: Iterable[Candidate], known: Collection[int] = ()) -> list[Candidate]:
    first: dict[int, Candidate] = {}
    for candidate in candidates:
        if candidate.chunk not in known:
            first.setdefault(candidate.chunk, candidate)
    return list(first.values())


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
