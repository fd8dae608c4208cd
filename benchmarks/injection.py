"""What reaches an LLM call: worlds of memories and prompts, and questions asked where nothing answers them.

A set of worlds (`--worlds`) has one folder each, with `memories.jsonl` {id, collection, text or the fields of
a learning, key?, category?, tags?, session?} and `prompts.jsonl` {id, text, kind, relevant: [memory ids]}.
Beside them LoCoMo and SciFact: questions asked of their own documents, of alike ones and of others.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentctx.config.embedding import EmbeddingSettings, RagSettings
from agentctx.embedding.judge.judge import Judge
from agentctx.embedding.providers.registry import create_provider
from agentctx.service.rag.calibrator import kept_calibration
from agentctx.service.rag.question import Answer, Question
from agentctx.service.rag.relevance import Calibration, Eagerness
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.search import Filter
from agentctx.wire import DEFAULT_NAMESPACE
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.relevance import Searchable, embedded, searchable
from benchmarks.retrieval_set import RetrievalSet, read_set, read_sets
from benchmarks.vector_cache import CachedEmbedder

EAGERNESS: tuple[Eagerness, ...] = ("careful", "normal", "eager")
ANSWERABLE = ("direct", "paraphrase", "indirect", "multi", "code")
ASKED_ELSEWHERE = ("direct", "paraphrase", "near", "code")
"""Kinds of prompts that are also asked in the other worlds, where nothing should answer them."""
ADDED = frozenset({"cross", "cross-code", "pasted", "pasted-far"})
"""Kinds besides the world's own prompts."""
STEPS = 5
"""Number of spans of relevance that are compared with the share of right passages."""
PASTED_WORDS = 450
MAX_FOREIGN = 60
"""Questions from one set, asked of another."""
LEAST_FOUND, LEAST_GIVEN, MOST_NEAR, MOST_CROSS = 0.87, 0.78, 0.15, 0.05
LEAST_KEPT = {"LoCoMo": 0.95, "SciFact": 0.92}
MOST_FALSE = {"LoCoMo alike": 0.15, "SciFact other": 0.02}
_BUDGET = 4_000
_NOT_FIELDS = {"id", "collection", "session", "text"}


class Shown(NamedTuple):
    """An injected passage: the relevance that the answer shows, 0 to 1, and whether it is right."""

    relevance: float
    is_right: bool


class Outcome(NamedTuple):
    """One prompt: whether its memory was among the first results and injected, what was injected, and how
    many passages the judge read for it.
    """

    found: bool
    injected: bool
    shown: tuple[Shown, ...] = ()
    read: int = 0

    @property
    def others(self) -> int:
        """How many irrelevant memories were injected."""
        return sum(not each.is_right for each in self.shown)


Outcomes: TypeAlias = dict[str, list[Outcome]]
"""Outcomes by kind of prompt."""


@dataclass(frozen=True, slots=True)
class World:
    """Memories of one user, and prompts."""

    name: str
    memories: Sequence[Mapping[str, Any]]
    prompts: Sequence[Mapping[str, Any]]


def read_worlds(folder: Path) -> list[World]:
    """Return every folder that contains memories, by name."""
    return [
        World(path.parent.name, _rows(path), _rows(path.with_name("prompts.jsonl")))
        for path in sorted(folder.glob("*/memories.jsonl"))
    ]


async def measure(options: Options) -> list[Figure]:
    """Print the curve over the eagerness, and judge the default."""
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    embedder = CachedEmbedder(provider)
    with tempfile.TemporaryDirectory() as folder:
        calibration = kept_calibration(provider, Path(folder))
    judge = Judge()
    try:
        figures: list[Figure] = []
        if options.worlds:
            figures += await _worlds(read_worlds(options.worlds), embedder, calibration, judge)
        if options.locomo and options.scifact:
            figures += await _guards(
                read_sets(options.locomo), read_set(options.scifact), embedder, calibration, judge
            )
        return figures
    finally:
        embedder.save()
        await judge.aclose()
        await provider.aclose()


async def _worlds(
    worlds: Sequence[World], embedder: CachedEmbedder, calibration: Calibration | None, judge: Judge
) -> list[Figure]:
    outcomes: dict[Eagerness, Outcomes] = {each: defaultdict(list) for each in EAGERNESS}
    for world in worlds:
        async with embedded(embedder, partial(_save_world, world)) as target:
            for kind, text, relevant in _asked_in(world, worlds):
                for eagerness, found in outcomes.items():
                    found[kind].append(await _ask(target, text, relevant, calibration, judge, eagerness))
    return [figure for eagerness in EAGERNESS for figure in _of_worlds(eagerness, outcomes[eagerness])]


def _asked_in(world: World, worlds: Sequence[World]) -> Iterator[tuple[str, str, frozenset[str]]]:
    yield from _after_a_paste(world, worlds)
    for asking in worlds:
        for prompt in asking.prompts:
            if asking is world:
                yield prompt["kind"], prompt["text"], frozenset(prompt["relevant"])
            elif prompt["kind"] in ASKED_ELSEWHERE:
                yield "cross-code" if prompt["kind"] == "code" else "cross", prompt["text"], frozenset()


def _after_a_paste(world: World, worlds: Sequence[World]) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Append direct questions to code of other worlds, and add as many such pastes without a question."""
    code = [
        prompt["text"]
        for other in worlds
        if other is not world
        for prompt in other.prompts
        if prompt["kind"] == "codefar"
    ]
    drawn = random.Random(world.name)
    for prompt in world.prompts:
        if prompt["kind"] == "direct":
            paste = ""
            for text in drawn.sample(code, len(code)):
                if len(paste.split()) <= PASTED_WORDS:
                    paste += f"{text}\n\n"
            yield "pasted", paste + prompt["text"], frozenset(prompt["relevant"])
            yield "pasted-far", paste, frozenset()


async def _save_world(world: World, stores: EntryStore) -> dict[str, str]:
    ids = {}
    for memory in world.memories:
        values = {
            name: value
            for name, value in memory.items()
            if name not in {"id", "collection", "session", "text"}
        }
        if "text" in memory:
            values["content"] = memory["text"]
        where = SaveContext(session=memory.get("session", memory["id"]))
        saved = await stores.save_fields(memory["collection"], values, where)
        ids[saved.id] = memory["id"]
    return ids


async def _ask(
    target: Searchable,
    text: str,
    relevant: frozenset[str],
    calibration: Calibration | None,
    judge: Judge,
    eagerness: Eagerness,
) -> Outcome:
    service = RAGService(
        target.storage,
        target.embedder,
        lambda: ServingModel(target.space, calibration=calibration, judge=judge),
        RagSettings(deadline_s=60.0),
        eagerness=eagerness,
    )
    question = Question(
        text=text, filter=Filter(namespace=DEFAULT_NAMESPACE), limit=5, order="relevance", position="tail"
    )
    return _outcome(await service.context(question, budget_tokens=_BUDGET), target.ids, relevant)


def _outcome(context: Answer, ids: Mapping[str, str], relevant: frozenset[str]) -> Outcome:
    first = dict.fromkeys(ids[each.candidate.entry] for each in context.considered)
    shown = {ids[hit.entry.id]: hit.relevance for hit in reversed(context.hits)}
    return Outcome(
        found=not relevant.isdisjoint(list(first)[:3]),
        injected=not relevant.isdisjoint(shown),
        shown=tuple(Shown(figure, memory in relevant) for memory, figure in shown.items()),
        read=sum(each.candidate.by_judge for each in context.considered),
    )


def _of_worlds(eagerness: Eagerness, outcomes: Outcomes) -> Iterator[Figure]:
    answerable = [outcome for kind in ANSWERABLE for outcome in outcomes[kind]]
    judged = eagerness == "normal"
    if judged:
        for kind in ("all", *(each for each in (*ANSWERABLE, "pasted") if outcomes[each])):
            some = answerable if kind == "all" else outcomes[kind]
            bar = {"all": at_least(LEAST_FOUND, "first three"), "pasted": at_least(1.0, "every")}.get(kind)
            share = sum(each.found for each in some) / len(some)
            yield Figure(name=f"worlds, {kind}: memory in the first three", value=share, unit="", bar=bar)
            given = sum(each.injected for each in some) / len(some)
            yield Figure(name=f"worlds, {kind}: memory injected", value=given, unit="")
    found = [each for each in (*answerable, *outcomes["pasted"]) if each.found]
    yield Figure(
        name=f"worlds, {eagerness}: of which injected",
        value=sum(each.injected for each in found) / len(found),
        unit="",
        bar=at_least(LEAST_GIVEN, "injected") if judged else None,
    )
    others = sum(each.others for each in answerable) / len(answerable)
    yield Figure(name=f"worlds, {eagerness}: other passages per prompt", value=others, unit="")
    for kind in sorted(
        kind for kind, some in outcomes.items() if some and kind not in {*ANSWERABLE, "pasted"}
    ):
        bar = {
            "cross": at_most(MOST_CROSS, "cross"),
            "near": at_most(MOST_NEAR, "near"),
            **dict.fromkeys(("cross-code", "pasted-far", "twin")),
        }.get(kind, at_most(0.0, "none"))
        rate = false_rate(outcomes[kind])
        yield Figure(name=f"worlds, {eagerness}: {kind}", value=rate, unit="", bar=bar if judged else None)
    if judged:
        yield from of_judge([each for kind in outcomes if kind not in ADDED for each in outcomes[kind]])


def of_judge(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Yield how many passages the judge reads for a prompt, and which share of what is shown was right, by
    the relevance with which it is shown.
    """
    read = sum(each.read for each in outcomes) / len(outcomes)
    yield Figure(name="worlds: pairs read by the judge, mean", value=read, unit="")
    shown = [each for outcome in outcomes for each in outcome.shown]
    for step in range(STEPS):
        some = [each.is_right for each in shown if min(int(each.relevance * STEPS), STEPS - 1) == step]
        if some:
            span = f"{step / STEPS:g} to {(step + 1) / STEPS:g}"
            right = sum(some) / len(some)
            yield Figure(name=f"worlds, shown as {span}: right", value=right, unit=f"of {len(some)}")


async def _guards(
    talks: Sequence[RetrievalSet],
    claims: RetrievalSet,
    embedder: CachedEmbedder,
    calibration: Calibration | None,
    judge: Judge,
) -> list[Figure]:
    outcomes: Outcomes = defaultdict(list)

    async def asked(name: str, target: Searchable, source: RetrievalSet, most: int | None = None) -> None:
        for query in source.queries[:most]:
            relevant = query.relevant if source is target.source else frozenset[str]()
            outcomes[name].append(await _ask(target, query.text, relevant, calibration, judge, "normal"))

    for talk in talks:
        async with searchable(talk, embedder) as target:
            await asked("LoCoMo own", target, talk)
            for other in talks:
                if other is not talk:
                    await asked("LoCoMo alike", target, other, MAX_FOREIGN)
            await asked("LoCoMo other", target, claims, MAX_FOREIGN)
    async with searchable(claims, embedder) as target:
        await asked("SciFact own", target, claims)
        for talk in talks:
            await asked("SciFact other", target, talk, MAX_FOREIGN)
    return list(_of_guards(outcomes))


def _of_guards(outcomes: Outcomes) -> Iterator[Figure]:
    for name, some in outcomes.items():
        corpus, kind = name.split()
        if kind == "own":
            found = [each for each in some if each.found]
            kept = sum(each.injected for each in found) / len(found)
            bar = at_least(LEAST_KEPT[corpus], "kept")
            yield Figure(
                name=f"{corpus}: injected, of those in the first three", value=kept, unit="", bar=bar
            )
        else:
            most = at_most(MOST_FALSE[name], "false") if name in MOST_FALSE else None
            yield Figure(name=f"{name}: anything injected", value=false_rate(some), unit="", bar=most)


def false_rate(outcomes: Sequence[Outcome]) -> float:
    """Return the share of prompts for which anything irrelevant was injected."""
    return sum(each.others > 0 for each in outcomes) / len(outcomes)


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
