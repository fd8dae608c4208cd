"""Answer questions: passages for a search, or the block for an LLM call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from agentctx.config.embedding import RagSettings, RerankSettings
from agentctx.embedding.rerankers.base import Reranker
from agentctx.errors import AgentctxError, ProviderFailed
from agentctx.service.rag import judging
from agentctx.service.rag.budget import estimate_tokens, fit
from agentctx.service.rag.candidate import Candidate, Trace, without_room
from agentctx.service.rag.duplicates import ConversationTexts
from agentctx.service.rag.explain import Ranks
from agentctx.service.rag.finding import SPARE, Ranking, passages, ranks
from agentctx.service.rag.injection import InjectionRules, apply_caps, select_candidates
from agentctx.service.rag.precedence import arranged
from agentctx.service.rag.prompt import not_looked_up
from agentctx.service.rag.question import Answer, Question, allowed
from agentctx.service.rag.relevance import Eagerness, Gate, calibrated, falling
from agentctx.service.rag.render import EMPTY_FRAME, BlockPassage, render, render_passage
from agentctx.service.rag.retrieval import (
    QueryEmbedder,
    Retrieval,
    ServingModel,
    merged,
    pool_for,
    sub_questions,
    without_typing_errors,
)
from agentctx.service.rag.select import Caps, distinct_texts, select
from agentctx.service.rag.twins import by_names
from agentctx.service.rag.unmeasured import order_by_distance, to_choose_from
from agentctx.service.telemetry.labels import degradation
from agentctx.storage.base import Storage
from agentctx.storage.search import ResolvedChunk
from agentctx.telemetry import NO_TELEMETRY, Measurement, Telemetry
from agentctx.text.chunking.base import PositionAwareChunk
from agentctx.times import format_date
from agentctx.wire import Order

_log = structlog.get_logger("agentctx.rag")

LISTED = 200
"""How many of the newest chunks a listing considers."""
LOOKED_AT = 1_000
"""How many hits of each search are examined for one entry."""
QUESTIONS_PER_COUNT = 1_000
"""Number of entries that can be counted at less than the cost of one question."""


@dataclass(frozen=True, slots=True)
class BoundedReranker:
    """A reranker with its limits: the number of candidates that it reads, and the deadline."""

    reranker: Reranker
    settings: RerankSettings
    telemetry: Telemetry

    async def order(
        self, query: str, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk], limit: int
    ) -> tuple[list[Candidate], str | None]:
        """Reorder the candidates: the best `limit` of the first `settings.candidates` come first.

        If the reranker fails or takes too long, return the given order and the reason.
        """
        read = candidates[: self.settings.candidates]
        chunks = [as_chunk(found[candidate.chunk]) for candidate in read]
        with self.telemetry.stage("rerank"):
            best, reason = await self._best(query, chunks, min(limit, len(chunks)))
        if reason is not None:
            _log.warning("rerank_failed", reranker=self.reranker.name, reason=reason)
        ranks = {chunk: rank for rank, chunk in enumerate(best)}
        return sorted(candidates, key=lambda candidate: ranks.get(candidate.chunk, len(ranks))), reason

    async def _best(
        self, query: str, chunks: Sequence[PositionAwareChunk], limit: int
    ) -> tuple[list[int], str | None]:
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                best = await self.reranker.rerank(query, chunks, limit)
            return checked_ids(best, chunks), None
        except TimeoutError:
            return [], f"deadline: it took longer than {self.settings.deadline_s:g} s"
        except AgentctxError as error:
            return [], f"{error.code}: {error.message}"
        except Exception as error:  # noqa: BLE001 - a reranker may be third-party code, and is optional
            return [], f"{ProviderFailed.code}: {type(error).__name__}"


class RAGService:
    """Embeds a question, searches the collections, then resolves and orders the hits.

    Always answers: while the embedder is missing, down or slow, by keyword search alone, marked as degraded.
    A reranker chooses among the best candidates and orders them; with `order="distance"`, it only chooses.
    While it is down or slow, the fused order is used instead, and the answer says so.
    """

    def __init__(
        self,
        storage: Storage,
        embedder: QueryEmbedder | None,
        serving: Callable[[], ServingModel],
        settings: RagSettings | None = None,
        *,
        telemetry: Telemetry = NO_TELEMETRY,
        reranker: Reranker | None = None,
        rerank_settings: RerankSettings | None = None,
        eagerness: Eagerness | None = "normal",
        caps: Caps | None = None,
    ) -> None:
        """`embedder` is used if `serving` has none. With `eagerness` None, every hit is injected."""
        self._caps = caps or Caps()
        self._search = storage.search
        self._read_secret = storage.secret
        self._sizes = NamespaceSizes(storage.search.count_entries)
        self._telemetry = telemetry
        self.settings = settings or RagSettings()
        """May be replaced at runtime; the next question uses the new settings."""
        self.eagerness = eagerness
        self._reranker = (
            BoundedReranker(reranker, rerank_settings or RerankSettings(), telemetry) if reranker else None
        )
        self._candidates = self._reranker.settings.candidates if self._reranker else 0
        self._secret: bytes | None = None

        def answering() -> ServingModel:
            now = serving()
            return now if now.embedder is not None else replace(now, embedder=embedder)

        self._serving = serving
        self._retrieval = Retrieval(
            storage.search, answering, lambda: self.settings, telemetry, storage.clock
        )

    async def retrieve(self, question: Question) -> Answer:
        """Return the closest passages; none for a blank question.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        if not question.text.strip():
            return Answer()
        with self._telemetry.answering(question.limit) as answering:
            ranking = await self._ranking(question)
            selected = self._selected(question, ranking)
            chosen, rerank = await self._reranked(question, selected, ranking)
            return self._answer(question, ranking, chosen[: question.limit], rerank, answering)

    async def context(self, question: Question, *, budget_tokens: int) -> Answer:
        """Return the block for an LLM call, within the budget; empty if nothing is relevant.

        `InjectionRules` decide what it may contain, unless the question asks for everything.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        asks = question.action or question.is_listing
        if not asks and not_looked_up(question.text, everything=question.everything):
            return Answer()
        trace: Trace | None = None
        if question.everything and not (question.position or question.present or asks):
            answer = await self.retrieve(question)
        else:
            answer, trace = await self._injection(allowed(question))
        left = budget_tokens - estimate_tokens(EMPTY_FRAME)
        shown = {hit.chunk: block_passage(hit, question.filter.namespace) for hit in answer.hits}
        hits = fit(answer.hits, left, lambda hit: estimate_tokens(render_passage(shown[hit.chunk])))
        block = render([shown[hit.chunk] for hit in hits], secret=await self.secret())
        answer = replace(answer, hits=tuple(hits), block=block, tokens=estimate_tokens(block))
        if trace is None:
            return answer
        trace.left_out("budget", shown.keys() - {hit.chunk for hit in hits})
        considered = trace.considered()
        left_out = without_room(considered) if question.is_listing else 0
        return replace(answer, considered=considered, gate=trace.gate, left_out=left_out)

    async def secret(self) -> bytes:
        """Return the secret of the installation, read once."""
        if self._secret is None:
            self._secret = await self._read_secret()
        return self._secret

    async def ranks_of(self, question: Question, entry: str) -> Ranks:
        """Return the ranks of an entry among everything the question finds in its first namespace."""
        return await self._retrieval.find(allowed(question), LOOKED_AT, partial(ranks, entry=entry))

    async def _ranking(self, question: Question, *, in_parts: bool = False) -> Ranking:
        """Return what was found for the question, and for what it means where a word is misspelled.

        The names of the whole question decide, unless it is about an action.
        """
        questions = sub_questions(question, in_parts=in_parts)
        rankings = await asyncio.gather(*self._searches(questions))
        ranking = merged(questions, rankings)
        meant = without_typing_errors(question.text, ranking)
        if meant is not None:
            again = [replace(question, filter=each, text=meant) for each in question.filters]
            ranking = merged([*questions, *again], [*rankings, *await asyncio.gather(*self._searches(again))])
        if question.action:
            return replace(ranking, rated=question.action.rated(ranking.rated, ranking.texts))
        return replace(ranking, rated=by_names(question.text, ranking.rated, ranking.texts))

    def _searches(self, questions: Sequence[Question]) -> list[Coroutine[Any, Any, Ranking]]:
        pool = max(pool_for(questions[0].limit), self._candidates)
        return [self._retrieval.find(each, pool, passages) for each in questions]

    async def _injection(self, question: Question) -> tuple[Answer, Trace]:
        """Choose the passages to inject; the trace records the fate of every candidate."""
        until = asyncio.get_running_loop().time() + self._retrieval.deadline_s(question)
        with self._telemetry.answering(question.limit) as answering:
            is_listing = question.is_listing
            ranking = await (self._listed(question) if is_listing else self._ranking(question, in_parts=True))
            rules = await self._rules(question)
            first, judge = await self._judged(question, ranking, until)
            relevant = {each.chunk: each for each in first}
            trace = Trace([relevant.get(each.chunk, each) for each in ranking.candidates], rules.gate)
            read = trace.kept("limit", ranking.candidates, to_choose_from(first, question.order))
            candidates = select_candidates(
                read, ranking.texts, rules, trace, max_per_entry=self.settings.max_per_entry
            )
            chosen, rerank = await self._reranked(question, candidates, ranking)
            if self._reranker and rerank is None and not question.action:
                trace.reranked(chosen)
                chosen = arranged(chosen, ranking.texts, question.text)
            kept = apply_caps(chosen, ranking.texts, rules, trace, question.limit)
            return replace(self._answer(question, ranking, kept, rerank, answering), judge=judge), trace

    async def _judged(
        self, question: Question, ranking: Ranking, until: float
    ) -> tuple[Sequence[Candidate], str | None]:
        """Return the candidates with the judge's opinion, or the reason why there is none."""
        judge = self._serving().judge
        if judge is None or question.everything or question.action:
            return ranking.rated, None
        open_ones = judging.left_open(ranking.rated, ranking.texts, ranking.level)
        if not open_ones:
            return ranking.rated, None
        texts = [judging.passage_to_judge(ranking.texts[each.chunk]) for each in open_ones]
        try:
            async with asyncio.timeout_at(until):
                with self._telemetry.stage("judge"):
                    scores = await judge.scores(judging.text_to_judge(question.text), texts)
        except TimeoutError:
            return ranking.rated, "deadline: the rules decided alone"
        except AgentctxError as error:
            return ranking.rated, f"{error.code}: {error.message}"
        of_chunk = {each.chunk: score for each, score in zip(open_ones, scores, strict=True)}
        return judging.judged(ranking.rated, of_chunk, question.text), None

    async def _listed(self, question: Question) -> Ranking:
        """Return the newest within the filter of each namespace."""
        listed, texts = list[Candidate](), dict[int, ResolvedChunk]()
        for wanted in question.filters:
            newest = await self._search.newest(wanted, LISTED)
            found = await self._search.resolve([chunk for chunk, _ in newest], wanted)
            texts |= {chunk: text for chunk, text in found.items() if question.may_list(text.entry)}
            listed += [Candidate(chunk, entry, None, None) for chunk, entry in newest if chunk in texts]
        count = question.limit + SPARE
        return Ranking(listed[:count], listed[count:], texts)

    async def _rules(self, question: Question) -> InjectionRules:
        gate = None
        if question.action:
            gate = question.action.gate(self.eagerness)
        elif self.eagerness and not question.everything:
            sizes = [await self._sizes.of(each.namespace) for each in question.filters]
            gate = Gate.of(self.eagerness, sum(sizes))
        return InjectionRules(
            question=question.text,
            gate=gate,
            max_distance=question.max_distance,
            conversation=ConversationTexts(question.present, question.own),
            caps=replace(self._caps, asker=question.asker, strict=question.position == "system"),
            with_flagged=question.position != "system",
        )

    def _selected(self, question: Question, ranking: Ranking) -> list[Candidate]:
        """Return the candidates that may be in the answer, in order."""
        rated = to_choose_from(ranking.rated, question.order)
        selected = select(
            [each for each in rated if each.chunk in ranking.texts],
            limit=max(question.limit, self._candidates) + SPARE,
            max_per_entry=self.settings.max_per_entry,
            max_distance=question.max_distance,
            keep_unmeasured=ranking.degraded is not None,
        )
        return distinct_texts(selected, {chunk: text.content for chunk, text in ranking.texts.items()})

    async def _reranked(
        self, question: Question, candidates: Sequence[Candidate], ranking: Ranking
    ) -> tuple[list[Candidate], str | None]:
        """Return the candidates, best first, and the reason if the reranker failed to order them."""
        if (
            self._reranker
            and not (question.action or question.is_listing)
            and can_change_result(len(candidates), question.limit, question.order)
        ):
            return await self._reranker.order(question.text, candidates, ranking.texts, question.limit)
        return list(candidates), None

    def _answer(
        self,
        question: Question,
        ranking: Ranking,
        chosen: Sequence[Candidate],
        rerank: str | None,
        answering: Measurement,
    ) -> Answer:
        """Return the texts of the chosen; say why some may be missing: no vectors, or an incomplete index."""
        reasons = (ranking.degraded, self._search.keyword_gap)
        degraded = "; ".join(reason for reason in reasons if reason) or None
        if degraded is not None:
            answering.ended(degradation(degraded))
        ordered = order_by_distance(chosen) if question.order == "distance" else chosen
        relevances = [shown_relevance(each) for each in ordered]
        shown = falling(relevances) if question.order == "relevance" else relevances
        hits = (
            replace(ranking.texts[each.chunk], distance=each.distance, relevance=relevance)
            for each, relevance in zip(ordered, shown, strict=True)
        )
        return Answer(tuple(hits), degraded, rerank)


class NamespaceSizes:
    """Caches the number of entries per namespace, recounting when it may have changed noticeably."""

    def __init__(self, count: Callable[[str], Awaitable[int]]) -> None:
        self._count = count
        self._known: dict[str, tuple[int, int]] = {}

    async def of(self, namespace: str) -> int:
        """Return the count, which is renewed after `count / QUESTIONS_PER_COUNT` questions."""
        size, left = self._known.get(namespace, (0, 0))
        if left <= 0:
            size = await self._count(namespace)
            left = size // QUESTIONS_PER_COUNT
        self._known[namespace] = size, left - 1
        return size


def shown_relevance(candidate: Candidate) -> float:
    """Return the figure of a passage in an answer: what the rules alone gave is calibrated first."""
    is_final = candidate.by_judge or candidate.by_words or candidate.relevance in {0.0, 1.0}
    return candidate.relevance if is_final else calibrated(candidate.relevance)


def block_passage(hit: ResolvedChunk, home: str) -> BlockPassage:
    """Convert a hit to the passage a block shows, with its namespace unless it is `home`."""
    entry = hit.entry
    return BlockPassage(
        collection=entry.collection,
        source=hit.source_id,
        date=format_date(entry.updated),
        trust=entry.trust,
        content=hit.content,
        namespace="" if entry.namespace == home else entry.namespace,
    )


def can_change_result(count: int, limit: int, order: Order) -> bool:
    """Return whether reranking can change an answer of `limit` out of `count` candidates.

    With order "distance", only the choice of candidates matters, not their ranking.
    """
    return count > (limit if order == "distance" else 1)


def as_chunk(resolved: ResolvedChunk) -> PositionAwareChunk:
    """Convert a resolved chunk to a reranker's input; `doc_id` is the entry's id."""
    return PositionAwareChunk(
        id=str(resolved.chunk),
        content=resolved.content,
        doc_id=resolved.entry.id,
        start=resolved.start,
        end=resolved.end,
    )


def checked_ids(best: Sequence[PositionAwareChunk], given: Sequence[PositionAwareChunk]) -> list[int]:
    """Return the ids of the chunks that a reranker returned.

    Raises:
        ProviderFailed: the result contains a chunk that was not given, or the same chunk twice.
    """
    ids = [chunk.id for chunk in best]
    if len(set(ids)) != len(ids) or not set(ids) <= {chunk.id for chunk in given}:
        raise ProviderFailed("The reranker returned chunks that it was not given, or one of them twice.")
    return [int(number) for number in ids]
