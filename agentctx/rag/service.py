"""Answer questions: passages for a search, or the block for an LLM call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from agentctx.config.embedding import RagSettings, RerankSettings
from agentctx.rag.budget import estimate_tokens, fit
from agentctx.rag.candidate import Candidate
from agentctx.rag.duplicates import ConversationTexts
from agentctx.rag.explain import Ranks, places
from agentctx.rag.finding import SPARE, Retrieved, hits, passages
from agentctx.rag.injection import InjectionRules, apply_caps, select_candidates
from agentctx.rag.prompt import not_looked_up
from agentctx.rag.question import Answer, Context, Hit, Question, allowed
from agentctx.rag.relevance import Eagerness, Gate
from agentctx.rag.render import EMPTY_FRAME, BlockPassage, render, render_passage
from agentctx.rag.rerank import Reranking, can_change_result
from agentctx.rag.retrieval import QueryEmbedder, Retrieval, Serving, merged, pool_for, sub_questions
from agentctx.rag.select import Caps, distinct_texts, select
from agentctx.rag.trace import Considered, Trace
from agentctx.rag.unmeasured import order_by_distance, to_choose_from
from agentctx.rerankers.base import Reranker
from agentctx.storage.base import Storage
from agentctx.storage.search import ResolvedChunk
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.telemetry.labels import degradation
from agentctx.times import format_date

LOOKED_AT = 1_000
"""How many hits of each search are examined for one entry."""
QUESTIONS_PER_COUNT = 1_000
"""Number of entries that can be counted at less than the cost of one question."""


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
        serving: Callable[[], Serving],
        settings: RagSettings | None = None,
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
        self._sizes = Sizes(storage.search.count_entries)
        self._telemetry = telemetry
        self.settings = settings or RagSettings()
        """May be replaced at runtime; the next question uses the new settings."""
        self.eagerness = eagerness
        self._reranking = (
            Reranking(reranker, rerank_settings or RerankSettings(), telemetry) if reranker else None
        )
        self._candidates = self._reranking.settings.candidates if self._reranking else 0
        self._secret: bytes | None = None

        def answering() -> Serving:
            now = serving()
            return now if now.embedder is not None else replace(now, embedder=embedder)

        self._retrieval = Retrieval(storage.search, answering, lambda: self.settings, telemetry)

    async def retrieve(self, question: Question) -> Answer:
        """Return the closest passages; none for a blank question.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        if not question.text.strip():
            return Answer(())
        with self._telemetry.answering(question.limit) as answering:
            asked, pool = sub_questions(question), self._pool(question)
            found = merged(
                asked, await asyncio.gather(*(self._retrieval.find(each, pool, passages) for each in asked))
            )
            candidates = self._selected(question, found)
            chosen, rerank = await self._chosen(question, candidates, found.texts)
            degraded = self._degraded(found)
            if degraded is not None:
                answering.ended(degradation(degraded))
        return _answer(question, chosen[: question.limit], found.texts, degraded, rerank)

    async def context(self, question: Question, *, budget_tokens: int) -> Context:
        """Return the block for an LLM call, within the budget; empty if nothing is relevant.

        `InjectionRules` decide what it may contain, unless the question asks for everything.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        if not_looked_up(question.text, everything=question.everything):
            return Context("", 0, ())
        trace: Trace | None = None
        if question.everything and question.position is None and not question.present:
            answer = await self.retrieve(question)
        else:
            answer, trace = await self._injection(allowed(question))
        left = budget_tokens - estimate_tokens(EMPTY_FRAME)
        passages = {hit.chunk.chunk: block_passage(hit, question.wanted.namespace) for hit in answer.hits}
        hits = fit(answer.hits, left, lambda hit: estimate_tokens(render_passage(passages[hit.chunk.chunk])))
        block = render([passages[hit.chunk.chunk] for hit in hits], secret=await self.secret())
        considered: tuple[Considered, ...] = ()
        if trace is not None:
            trace.left_out(
                "budget", {hit.chunk.chunk for hit in answer.hits} - {hit.chunk.chunk for hit in hits}
            )
            considered = trace.considered()
        return Context(
            block,
            estimate_tokens(block),
            tuple(hits),
            answer.degraded,
            answer.rerank,
            considered,
            None if trace is None else trace.gate,
        )

    async def secret(self) -> bytes:
        """Return the secret of the installation, read once."""
        if self._secret is None:
            self._secret = await self._read_secret()
        return self._secret

    async def places(self, question: Question, entry: str) -> Ranks:
        """Return the ranks of an entry among everything the question finds in its first namespace."""
        question = allowed(question)
        found = await self._retrieval.find(question, LOOKED_AT, hits)
        return places(entry, found.words, found.nearest, LOOKED_AT, found.degraded)

    def _pool(self, question: Question) -> int:
        return max(pool_for(question.limit), self._candidates)

    async def _injection(self, question: Question) -> tuple[Answer, Trace]:
        """Choose the passages to inject; the trace records the fate of every candidate."""
        with self._telemetry.answering(question.limit) as answering:
            asked, pool = sub_questions(question), self._pool(question)
            found = merged(
                asked, await asyncio.gather(*(self._retrieval.find(each, pool, passages) for each in asked))
            )
            rules = await self._rules(question)
            trace = Trace(found.candidates, rules.gate)
            read = trace.kept("limit", found.candidates, _judged(question, found))
            candidates = select_candidates(
                read, found.texts, rules, trace, max_per_entry=self.settings.max_per_entry
            )
            chosen, rerank = await self._chosen(question, candidates, found.texts)
            if self._reranking and rerank is None:
                trace.reranked(chosen)
            kept = apply_caps(chosen, found.texts, rules, trace, question.limit)
            degraded = self._degraded(found)
            if degraded is not None:
                answering.ended(degradation(degraded))
        return _answer(question, kept, found.texts, degraded, rerank), trace

    async def _rules(self, question: Question) -> InjectionRules:
        gate = None
        if self.eagerness and not question.everything:
            sizes = [await self._sizes.of(wanted.namespace) for wanted in question.filters]
            gate = Gate.of(self.eagerness, sum(sizes))
        return InjectionRules(
            gate=gate,
            max_distance=question.max_distance,
            conversation=ConversationTexts(question.present, question.own),
            caps=replace(self._caps, asker=question.asker, strict=question.position == "system"),
            with_flagged=question.position != "system",
        )

    def _degraded(self, found: Retrieved) -> str | None:
        """Return why the answer may be incomplete: no vector search, or an incomplete keyword index."""
        reasons = (found.degraded, self._search.words_shortfall)
        return "; ".join(reason for reason in reasons if reason) or None

    def _selected(self, question: Question, found: Retrieved) -> list[Candidate]:
        """Return the candidates that may be in the answer, in order."""
        present = [each for each in _judged(question, found) if each.chunk in found.texts]
        selected = select(
            present,
            limit=max(question.limit, self._candidates) + SPARE,
            max_per_entry=self.settings.max_per_entry,
            max_distance=question.max_distance,
            keep_unmeasured=found.degraded is not None,
        )
        return distinct_texts(selected, {chunk: text.content for chunk, text in found.texts.items()})

    async def _chosen(
        self, question: Question, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]
    ) -> tuple[list[Candidate], str | None]:
        """Return the candidates, best first, and the reason if the reranker failed to order them."""
        rerank = None
        if self._reranking and can_change_result(len(candidates), question.limit, question.order):
            candidates, rerank = await self._reranking.order(question.text, candidates, found, question.limit)
        return list(candidates), rerank


class Sizes:
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


def _judged(question: Question, found: Retrieved) -> list[Candidate]:
    """Return the judged candidates in the order in which they are chosen."""
    return to_choose_from(found.candidates[: found.judged], question.order)


def _answer(
    question: Question,
    chosen: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    degraded: str | None,
    rerank: str | None,
) -> Answer:
    ordered = order_by_distance(chosen) if question.order == "distance" else chosen
    return Answer(tuple(Hit(found[c.chunk], c.distance, c.relevance) for c in ordered), degraded, rerank)


def block_passage(hit: Hit, home: str) -> BlockPassage:
    """Convert a hit to the passage a block shows, with its namespace unless it is `home`."""
    entry = hit.chunk.entry
    return BlockPassage(
        collection=entry.collection,
        source=hit.source_id,
        date=format_date(entry.updated),
        trust=entry.trust,
        content=hit.chunk.content,
        namespace="" if entry.namespace == home else entry.namespace,
    )
