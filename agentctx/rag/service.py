"""Answering questions: words and meaning in parallel, fused, selected, resolved to their present text."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import structlog

from agentctx.config.embedding import RagSettings, RerankSettings
from agentctx.embedding_providers.base import Vectors
from agentctx.errors import DeadlineExceeded, ProviderFailed, StorageCorrupt, StorageFailed
from agentctx.rag.budget import estimate_tokens, fit
from agentctx.rag.caps import Caps
from agentctx.rag.duplicates import ConversationTexts
from agentctx.rag.explain import Ranks, places
from agentctx.rag.floor import Floor
from agentctx.rag.fuse import Candidate, fuse, merge, order_by_distance
from agentctx.rag.injection import SPARE as SPARE_OF_INJECTION
from agentctx.rag.injection import InjectionRules, given_places, worth_reading, worth_telling
from agentctx.rag.question import Answer, Context, Hit, Question, allowed
from agentctx.rag.render import EMPTY_FRAME, BlockPassage, render, render_passage
from agentctx.rag.rerank import Reranking, can_matter
from agentctx.rag.select import distinct_texts, select
from agentctx.rag.trace import Considered, Trace
from agentctx.rerankers.base import Reranker
from agentctx.storage.base import Storage
from agentctx.storage.records import NearestChunk, ResolvedChunk, WordHit
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.telemetry.labels import degradation
from agentctx.times import format_date

_log = structlog.get_logger("agentctx.rag")

Words: TypeAlias = asyncio.Future[list[WordHit]]

LEAST_POOL = 40
"""Candidates each side brings at least: 30 to 100 measure alike, and fewer cost less."""
POOL_PER_RESULT = 4
LOOKED_AT = 1_000
"""How far down each search is looked through for one entry."""
SPARE = 4
"""Candidates resolved beyond the limit, for those that overlap or have just gone stale."""


class QueryEmbedder(Protocol):
    """What the service needs of an embedder."""

    async def embed_query(self, text: str) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class Serving:
    """Which space answers questions now; if none does, `reason` says why.

    `embedder` and `floor` are those of its model; None stands for those that the service was made with.
    """

    space: int | None
    reason: str | None = None
    embedder: QueryEmbedder | None = None
    floor: Floor | None = None


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What the vectors say: the nearest chunks, and the exact distances of those the words found."""

    hits: Sequence[NearestChunk] = ()
    exact: Mapping[int, float] = field(default_factory=dict)


class RAGService:
    """Embeds a question, searches the collections, resolves what it finds and orders it.

    Always answers: without an embedder, while it is down or slow, by words alone and marked so. A reranker
    reads the best candidates and chooses among them; with `order="distance"` it chooses, the distances sort.
    While it is down or slow, the fused order chooses, and the answer says so.
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
        floor: Floor | None = None,
        caps: Caps | None = None,
    ) -> None:
        self._caps = caps or Caps()
        self._search = storage.search
        self._read_secret = storage.secret
        self._telemetry = telemetry
        self._embedder = embedder
        self._serving = serving
        self.settings = settings or RagSettings()
        """May be replaced: the next question is answered by the new ones."""
        self._reranking = (
            Reranking(reranker, rerank_settings or RerankSettings(), telemetry) if reranker else None
        )
        self._floor = floor
        self._candidates = self._reranking.settings.candidates if self._reranking else 0
        self._secret: bytes | None = None
        self._vectors: OrderedDict[tuple[int, str], Vectors] = OrderedDict()

    @property
    def floor(self) -> Floor | None:
        """How close to a question a passage must be to be injected, by the model that answers."""
        return self._serving().floor or self._floor

    async def retrieve(self, question: Question) -> Answer:
        """The closest passages; none for a question of white space.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        if not question.text.strip():
            return Answer(())
        with self._telemetry.asking(question.limit) as asking:
            ranked, without_meaning = await self._ranked(question)
            candidates, found = await self._resolved(question, ranked, is_measured=without_meaning is None)
            chosen, rerank = await self._chosen(question, candidates, found)
            degraded = self._degraded(without_meaning)
            if degraded is not None:
                asking.ended(degradation(degraded))
        return _answer(question, chosen[: question.limit], found, degraded, rerank)

    async def context(self, question: Question, *, budget_tokens: int) -> Context:
        """The block that an LLM call would get, within the budget; empty when nothing was found.

        A question with a `position` is an injection: `InjectionRules` say what may be in it.

        Raises:
            StorageFailed, DeadlineExceeded: the database could not be read.
        """
        if not question.text.strip():
            return Context("", 0, ())
        trace: Trace | None = None
        if question.position is None and not question.present:
            answer = await self.retrieve(question)
        else:
            answer, trace = await self._injection(allowed(question))
        left = budget_tokens - estimate_tokens(EMPTY_FRAME)
        hits = fit(answer.hits, left, lambda hit: estimate_tokens(render_passage(block_passage(hit))))
        block = render([block_passage(hit) for hit in hits], secret=await self.secret())
        considered: tuple[Considered, ...] = ()
        if trace is not None:
            trace.left_out(
                "budget", {hit.chunk.chunk for hit in answer.hits} - {hit.chunk.chunk for hit in hits}
            )
            considered = trace.considered()
        return Context(block, estimate_tokens(block), tuple(hits), answer.degraded, answer.rerank, considered)

    async def secret(self) -> bytes:
        """That of the installation, read once."""
        if self._secret is None:
            self._secret = await self._read_secret()
        return self._secret

    async def places(self, question: Question, entry: str) -> Ranks:
        """Where an entry stands among all that a question finds."""
        question = allowed(replace(question, limit=-(-LOOKED_AT // POOL_PER_RESULT)))
        words = asyncio.ensure_future(self._words(question))
        try:
            meaning, degraded = await self._meaning(question, words)
            return places(entry, await words, meaning.hits, LOOKED_AT, degraded)
        finally:
            words.cancel()

    async def _injection(self, question: Question) -> tuple[Answer, Trace]:
        """What is worth a place in an LLM call, and what became of the other candidates."""
        rules = InjectionRules(
            floor=self.floor if question.position else None,
            max_distance=question.max_distance,
            conversation=ConversationTexts(question.present),
            caps=replace(self._caps, asker=question.asker, strict=question.position == "system"),
            with_flagged=question.position != "system",
        )
        with self._telemetry.asking(question.limit) as asking:
            ranked, degraded = await self._ranked(question)
            trace = Trace(ranked)
            most = max(question.limit, self._candidates) + SPARE_OF_INJECTION
            read = worth_reading(ranked, rules, trace, max_per_entry=self.settings.max_per_entry, most=most)
            found = await self._read(question, read)
            candidates = worth_telling(read, found, question.text, rules, trace)
            chosen, rerank = await self._chosen(question, candidates, found)
            if self._reranking and rerank is None:
                trace.reranked(chosen)
            kept = given_places(chosen, found, rules, trace, question.limit)
            degraded = self._degraded(degraded)
            if degraded is not None:
                asking.ended(degradation(degraded))
        return _answer(question, kept, found, degraded, rerank), trace

    def _degraded(self, without_meaning: str | None) -> str | None:
        """Why the answer may miss something: meaning had no part, or words are missing."""
        reasons = (without_meaning, self._search.words_shortfall)
        return "; ".join(reason for reason in reasons if reason) or None

    async def _ranked(self, question: Question) -> tuple[list[Candidate], str | None]:
        """All candidates in fused order; and why meaning had no part, if it had none."""
        words = asyncio.ensure_future(self._words(question))
        try:
            meaning, degraded = await self._meaning(question, words)
            found = await (words if degraded is not None else _readable(words))
            return self._fused(found, meaning), degraded
        finally:
            words.cancel()

    async def _words(self, question: Question) -> list[WordHit]:
        with self._telemetry.stage("words"):
            return await self._search.by_words(question.text, question.wanted, self._pool(question))

    def _pool(self, question: Question) -> int:
        return max(pool(question.limit), self._candidates)

    def _fused(self, words: Sequence[WordHit], meaning: _Meaning) -> list[Candidate]:
        with self._telemetry.stage("fuse"):
            return fuse(merge(words, meaning.hits, meaning.exact), self.settings.dense_weight)

    async def _meaning(self, question: Question, words: Words) -> tuple[_Meaning, str | None]:
        """Meaning's part of the answer; or nothing, and why."""
        deadline_s = min(self.settings.deadline_s, question.deadline_s or self.settings.deadline_s)
        serving = self._serving()
        embedder, space = serving.embedder or self._embedder, serving.space
        if embedder is None or space is None:
            return _Meaning(), serving.reason or "off: no embedding provider is configured"
        try:
            async with asyncio.timeout(deadline_s):
                query = await self._vector(space, embedder, question.text)
                measured = asyncio.ensure_future(self._measured(space, query, words))
                try:
                    with self._telemetry.stage("vectors"):
                        hits = await self._search.by_vector(
                            space, query, question.wanted, self._pool(question)
                        )
                    return _Meaning(hits, await measured), None
                finally:
                    if not measured.cancel() and not measured.cancelled():
                        measured.exception()  # where both failed, asyncio would log it as never retrieved
        except ProviderFailed as error:
            return _Meaning(), f"provider_failed: {error.message}"
        except TimeoutError:
            return _Meaning(), f"deadline: it took longer than {deadline_s:g} s"
        except (StorageFailed, DeadlineExceeded) as error:
            _log.warning("vector_search_failed", code=error.code, problem=error.message)
            return _Meaning(), f"{error.code}: {error.message}"

    async def _measured(self, space: int, query: Vectors, words: Words) -> dict[int, float]:
        """Distances of what the words found, looked up while the vectors are searched."""
        found = [hit.chunk for hit in await _readable(asyncio.shield(words))]
        if not found:
            return {}
        with self._telemetry.stage("distances"):
            return await self._search.distances(space, query, found)

    async def _vector(self, space: int, embedder: QueryEmbedder, text: str) -> Vectors:
        cached = self._vectors.get((space, text))
        if cached is not None:
            self._vectors.move_to_end((space, text))
            return cached
        with self._telemetry.embedding("query", 1):
            vector = await embedder.embed_query(text)
        if self.settings.cache_entries:
            self._vectors[space, text] = vector
            if len(self._vectors) > self.settings.cache_entries:
                self._vectors.popitem(last=False)
        return vector

    async def _resolved(
        self, question: Question, ranked: Sequence[Candidate], *, is_measured: bool
    ) -> tuple[list[Candidate], Mapping[int, ResolvedChunk]]:
        """The candidates that may be in the answer, in fused order, with their present texts."""
        selected = select(
            ranked,
            limit=max(question.limit, self._candidates) + SPARE,
            max_per_entry=self.settings.max_per_entry,
            max_distance=question.max_distance,
            keep_unmeasured=not is_measured,
        )
        found = await self._read(question, selected)
        present = [candidate for candidate in selected if candidate.chunk in found]
        texts = {chunk: resolved.content for chunk, resolved in found.items()}
        return distinct_texts(present, texts), found

    async def _read(self, question: Question, candidates: Sequence[Candidate]) -> Mapping[int, ResolvedChunk]:
        with self._telemetry.stage("resolve"):
            return await self._search.resolve([each.chunk for each in candidates], question.wanted)

    async def _chosen(
        self, question: Question, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk]
    ) -> tuple[list[Candidate], str | None]:
        """The candidates, the best in front; and why the reranker did not order them, if it should have."""
        rerank = None
        if self._reranking and can_matter(len(candidates), question.limit, question.order):
            candidates, rerank = await self._reranking.order(question.text, candidates, found, question.limit)
        return list(candidates), rerank


def _answer(
    question: Question,
    chosen: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    degraded: str | None,
    rerank: str | None,
) -> Answer:
    ordered = order_by_distance(chosen) if question.order == "distance" else chosen
    return Answer(tuple(Hit(found[c.chunk], c.distance, c.score) for c in ordered), degraded, rerank)


async def _readable(words: Words) -> list[WordHit]:
    """What the words found; nothing where their index is damaged, of which `words_shortfall` tells."""
    try:
        return await words
    except StorageCorrupt as error:
        _log.warning("word_search_failed", code=error.code, problem=error.message)
        return []


def pool(limit: int) -> int:
    """How many candidates words and meaning bring each."""
    return max(LEAST_POOL, POOL_PER_RESULT * limit)


def block_passage(hit: Hit) -> BlockPassage:
    """The hit as the block shows it."""
    entry = hit.chunk.entry
    return BlockPassage(
        collection=entry.collection,
        source=hit.source_id,
        date=format_date(entry.updated),
        trust=entry.trust,
        content=hit.chunk.content,
    )
