"""What a floor of injections costs and what it spares: recall kept and false injections, floor by floor.

Answerable are the questions of a set asked of its own documents. Unanswerable are questions asked of
documents that cannot answer them: those of the other kind (a question about a conversation asked of
abstracts, a claim asked of a conversation), and, harder, those about one conversation asked of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from agentctx.config.embedding import EmbeddingSettings, RagSettings
from agentctx.embedding_providers.registry import create_provider
from agentctx.rag.floor import CALIBRATED, NO_DISTANCE, Floor
from agentctx.rag.injection import said_by
from agentctx.rag.question import Question
from agentctx.rag.service import RAGService, Serving
from agentctx.rag.word_match import QuestionWords, WordMatch
from agentctx.storage.records import Filter
from agentctx.wire import DEFAULT_NAMESPACE
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.relevance import Searchable, searchable
from benchmarks.retrieval_set import Query, RetrievalSet, read_set, read_sets
from benchmarks.vector_cache import CachedEmbedder

CURVE: Mapping[float, Sequence[float]] = {
    0.0: (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8),
    0.3: (0.75, 0.8, 0.85),
    0.4: (0.8, 0.85, 0.9),
    0.5: (0.85, 0.9, 0.95),
}
"""Floors by what words are worth."""
MOST_FOREIGN = 60
"""Questions that one set asks of another."""
LEAST_KEPT = 0.9
MOST_FALSE = 0.1
"""Of the chosen floor, on each set; the words alone, which no model helps, are printed."""


class Evidence(NamedTuple):
    """A passage that would be injected without a floor."""

    is_relevant: bool
    distance: float | None
    words: WordMatch


Passages: TypeAlias = list[Evidence]
"""The passages for one question."""
Passes: TypeAlias = Callable[[Evidence], bool]


@dataclass(slots=True)
class Asked:
    """What the questions of one kind found, with meaning and by words alone."""

    fused: list[Passages] = field(default_factory=list)
    by_words: list[Passages] = field(default_factory=list)


@dataclass(slots=True)
class Trial:
    """One kind of memory: questions that it answers, and two kinds that it cannot."""

    name: str
    own: Asked = field(default_factory=Asked)
    alike: Asked = field(default_factory=Asked)
    other: Asked = field(default_factory=Asked)


async def measure(options: Options) -> list[Figure]:
    """The curve is printed; the chosen floor is judged."""
    claims = read_set(options.scifact) if options.scifact else None
    talks = read_sets(options.locomo) if options.locomo else []
    if claims is None or not talks:
        raise RuntimeError("injection_floor needs both --scifact and --locomo")
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    embedder = CachedEmbedder(provider)
    try:
        trials = [await _conversations(talks, claims, embedder), await _abstracts(claims, talks, embedder)]
    finally:
        embedder.save()
        await provider.aclose()
    return [*_curve(trials), *_chosen(trials, CALIBRATED[provider.model])]


async def _conversations(
    talks: Sequence[RetrievalSet], claims: RetrievalSet, embedder: CachedEmbedder
) -> Trial:
    trial = Trial("LoCoMo")
    for talk in talks:
        async with searchable(talk, embedder) as target:
            await _ask(target, talk.queries, trial.own)
            for foreign in talks:
                if foreign is not talk:
                    await _ask(target, foreign.queries[:MOST_FOREIGN], trial.alike)
            await _ask(target, claims.queries[:MOST_FOREIGN], trial.other)
    return trial


async def _abstracts(claims: RetrievalSet, talks: Sequence[RetrievalSet], embedder: CachedEmbedder) -> Trial:
    trial = Trial("SciFact")
    async with searchable(claims, embedder) as target:
        await _ask(target, claims.queries, trial.own)
        for talk in talks:
            await _ask(target, talk.queries[:MOST_FOREIGN], trial.other)
    return trial


async def _ask(target: Searchable, queries: Sequence[Query], asked: Asked) -> None:
    settings = RagSettings(deadline_s=60.0)
    fused = RAGService(target.storage, target.embedder, lambda: Serving(target.space), settings)
    by_words = RAGService(target.storage, None, lambda: Serving(None), settings)
    for query in queries:
        asked.fused.append(await _passages(fused, target.ids, query, settings.max_results))
        asked.by_words.append(await _passages(by_words, target.ids, query, settings.max_results))


async def _passages(service: RAGService, ids: Mapping[str, str], query: Query, limit: int) -> Passages:
    wanted = Filter(namespace=DEFAULT_NAMESPACE)
    question = Question(text=query.text, wanted=wanted, limit=limit, order="relevance")
    words = QuestionWords(query.text)
    return [
        Evidence(ids[hit.chunk.entry.id] in query.relevant, hit.distance, words.match(said_by(hit.chunk)))
        for hit in (await service.retrieve(question)).hits
    ]


def recall_kept(questions: Sequence[Passages], passes: Passes) -> float:
    """Of the questions whose answer is among the passages, the share for which it passes."""
    answered = [passages for passages in questions if any(each.is_relevant for each in passages)]
    kept = sum(any(each.is_relevant and passes(each) for each in passages) for passages in answered)
    return kept / len(answered)


def false_rate(questions: Sequence[Passages], passes: Passes) -> float:
    """The share of questions for which anything passes."""
    return sum(any(map(passes, passages)) for passages in questions) / len(questions)


def _passing(floor: Floor) -> Passes:
    return lambda each: floor.passes(each.distance, each.words)


def _curve(trials: Sequence[Trial]) -> Iterator[Figure]:
    for trial in trials:
        for worth, distances in CURVE.items():
            for distance in distances:
                passes = _passing(Floor(distance, words_worth=worth))
                name = f"{trial.name}, floor {distance:g}, words worth {worth:g}"
                yield Figure(name=f"{name}: recall kept", value=recall_kept(trial.own.fused, passes), unit="")
                if trial.alike.fused:
                    rate = false_rate(trial.alike.fused, passes)
                    yield Figure(name=f"{name}: false, alike", value=rate, unit="")
                yield Figure(
                    name=f"{name}: false, other", value=false_rate(trial.other.fused, passes), unit=""
                )


def _chosen(trials: Sequence[Trial], floor: Floor) -> Iterator[Figure]:
    name = f"chosen ({floor.max_distance:g}, {floor.words_worth:g})"
    for trial in trials:
        passes, by_words = _passing(floor), _passing(NO_DISTANCE)
        kept, lost = at_least(LEAST_KEPT, "kept"), at_most(MOST_FALSE, "false")
        where = f"{trial.name}, {name}"
        yield Figure(
            name=f"{where}: recall kept", value=recall_kept(trial.own.fused, passes), unit="", bar=kept
        )
        for kind, asked in (("alike", trial.alike), ("other", trial.other)):
            if asked.fused:
                rate = false_rate(asked.fused, passes)
                yield Figure(name=f"{where}: false, {kind}", value=rate, unit="", bar=lost)
                rate = false_rate(asked.by_words, by_words)
                yield Figure(name=f"{trial.name}, by words: false, {kind}", value=rate, unit="")
        kept_by_words = recall_kept(trial.own.by_words, by_words)
        yield Figure(name=f"{trial.name}, by words: recall kept", value=kept_by_words, unit="")
