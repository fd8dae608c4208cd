"""The quality of answers on retrieval sets: by keywords, by meaning and by both, with production code."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentctx.config.embedding import EmbeddingSettings, RagSettings
from agentctx.embedding.providers.registry import create_provider
from agentctx.service.rag.question import Answer, Question
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.records import Job
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.wire import DEFAULT_NAMESPACE
from benchmarks.figures import Figure, at_least
from benchmarks.filling import open_own_space
from benchmarks.options import Options
from benchmarks.ranking import Quality, mean_quality, quality
from benchmarks.retrieval_set import RetrievalSet, read_set, read_sets
from benchmarks.vector_cache import CachedEmbedder

WORDS, MEANING = 0.0, 1.0
LEAST_GAIN = 0.03
DATE_MS = 1_767_225_600_000
"""2026-01-01: the date is part of the embedded text; a changing one would invalidate all cached vectors."""
_ALL_CHUNKS = 200
"""The maximum of the fusion, so that only documents beyond the tenth are cut off, not chunks."""
_AT_ONCE = 200
_TRIES = 3
EMPTY = RetrievalSet({}, ())


@dataclass(frozen=True, slots=True)
class Searchable:
    """A saved and embedded set. `ids` maps entries to documents."""

    source: RetrievalSet
    storage: SqliteStorage
    embedder: CachedEmbedder
    space: int
    ids: Mapping[str, str]


async def measure(options: Options) -> list[Figure]:
    """SciFact is judged; LoCoMo, whose conversations are pooled question by question, is only printed."""
    default = RagSettings().dense_weight
    weights = (WORDS, MEANING, default)
    figures: list[Figure] = []
    if options.scifact:
        found = await qualities([read_set(options.scifact)], weights)
        best = max(found[WORDS].ndcg_10, found[MEANING].ndcg_10)
        for weight in weights:
            figures += _figures("SciFact", weight, found[weight], best if weight == default else None)
    if options.locomo:
        found = await qualities(read_sets(options.locomo), weights)
        for weight in weights:
            figures += _figures("LoCoMo", weight, found[weight], None)
    return figures


async def qualities(sets: Sequence[RetrievalSet], weights: Sequence[float]) -> dict[float, Quality]:
    """Return the mean over all questions of all sets, for each weight of meaning."""
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    embedder = CachedEmbedder(provider)
    answers: dict[float, list[Quality]] = {weight: [] for weight in weights}
    try:
        for source in sets:
            async with searchable(source, embedder) as target:
                for weight in weights:
                    answers[weight] += await _answers(target, weight)
    finally:
        embedder.save()
        await provider.aclose()
    return {weight: mean_quality(found) for weight, found in answers.items()}


@asynccontextmanager
async def searchable(source: RetrievalSet, embedder: CachedEmbedder) -> AsyncIterator[Searchable]:
    """Save the documents, embedded: turns as observations, others as reflections, in one session."""
    async with embedded(embedder, lambda stores: _save(stores, source), source) as target:
        yield target


@asynccontextmanager
async def embedded(
    embedder: CachedEmbedder,
    save: Callable[[EntryStore], Awaitable[Mapping[str, str]]],
    source: RetrievalSet = EMPTY,
) -> AsyncIterator[Searchable]:
    """Yield a separate database with the documents that `save` saves, embedded."""
    with tempfile.TemporaryDirectory(prefix="agentctx-bench-") as name:
        storage = await SqliteStorage.open(Path(name) / "relevance.db", clock=lambda: DATE_MS)
        try:
            space = await open_own_space(storage, embedder.provider)
            jobs: list[Job] = []
            ids = await save(EntryStore(storage, jobs.extend, clock=lambda: DATE_MS))
            for start in range(0, len(jobs), _AT_ONCE):
                batch = jobs[start : start + _AT_ONCE]
                await storage.jobs.complete(batch, await embedder.embed([job.text for job in batch]))
            yield Searchable(source, storage, embedder, space.id, ids)
        finally:
            await storage.close()


async def _save(stores: EntryStore, source: RetrievalSet) -> dict[str, str]:
    collection, where = "observation" if source.are_turns else "reflection", SaveContext(session="set")
    ids: dict[str, str] = {}
    waiting = list(source.documents.items())
    for start in range(0, len(waiting), _AT_ONCE):
        batch = waiting[start : start + _AT_ONCE]
        results = await asyncio.gather(
            *(stores.save_fields(collection, {"content": text}, where) for _, text in batch)
        )
        ids |= {result.id: document for result, (document, _) in zip(results, batch, strict=True)}
    return ids


async def _answers(target: Searchable, dense_weight: float) -> list[Quality]:
    settings = RagSettings(dense_weight=dense_weight, max_per_entry=_ALL_CHUNKS, deadline_s=60.0)
    service = RAGService(target.storage, target.embedder, lambda: ServingModel(target.space), settings)
    answers = []
    for query in target.source.queries:
        question = Question(
            text=query.text, filter=Filter(namespace=DEFAULT_NAMESPACE), limit=_ALL_CHUNKS, order="relevance"
        )
        answer = await _whole_answer(service, question)
        # An entry ranks where its best chunk ranks.
        ranked = list(dict.fromkeys(target.ids[hit.entry.id] for hit in answer.hits))
        answers.append(quality(ranked, query.relevant))
    return answers


async def _whole_answer(service: RAGService, question: Question) -> Answer:
    """Ask until the answer includes vector search, because a busy machine may miss a deadline."""
    for _ in range(_TRIES):
        answer = await service.retrieve(question)
        if answer.degraded is None:
            return answer
    raise RuntimeError(f"an answer had no meaning in it: {answer.degraded}")


def _figures(name: str, weight: float, found: Quality, best: float | None) -> list[Figure]:
    side = {WORDS: "words", MEANING: "meaning"}.get(weight, f"both (dense {weight:g})")
    bar = None if best is None else at_least(best + LEAST_GAIN, f"better side + {LEAST_GAIN:g}")
    return [
        Figure(name=f"{name}, {side}: nDCG@10", value=found.ndcg_10, unit="", baseline=best, bar=bar),
        Figure(name=f"{name}, {side}: MRR@10", value=found.mrr_10, unit=""),
        Figure(name=f"{name}, {side}: recall@1", value=found.recall_1, unit=""),
        Figure(name=f"{name}, {side}: recall@5", value=found.recall_5, unit=""),
        Figure(name=f"{name}, {side}: recall@10", value=found.recall_10, unit=""),
    ]
