"""What a daemon injects for questions about a name that has twins: the right memory, a twin, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agentctx.client.async_client import AsyncClient
from benchmarks.daemons import drained, running
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.injection import read_worlds
from benchmarks.options import Options
from benchmarks.twin_worlds import Question, World, worlds

WORLDS, QUICK_WORLDS = 6, 1
"""Each has 48 memories and 128 questions."""
LEAST_RIGHT, MOST_TWIN_ALONE, LEAST_NOTHING = 0.9, 0.03, 0.95
_BUDGET = 4_000
_OF_DATA = "written"
"""The kind of the questions from `--worlds`."""


class Outcome(NamedTuple):
    """A question, whether its memory was injected, and whether any other was."""

    question: Question
    is_right: bool
    is_other: bool


async def measure(options: Options) -> list[Figure]:
    asked = [*worlds(options.size(WORLDS, QUICK_WORLDS))]
    if options.worlds:
        asked += [*_written(options.worlds)]
    async with running() as client:
        outcomes = [
            outcome
            for number, world in enumerate(asked)
            for outcome in await _ask(client, f"world-{number}", world)
        ]
    generated = [each for each in outcomes if each.question.kind != _OF_DATA]
    written = [each for each in outcomes if each.question.kind == _OF_DATA]
    figures = [*_by_kind(generated)]
    if written:
        figures += _figures(written, "worlds' twins: ", judged=False)
    return [*figures, *_figures(generated, "", judged=True)]


def _written(folder: Path) -> Iterator[World]:
    """Yield the prompts with twins of worlds that were written by hand."""
    for world in read_worlds(folder):
        texts = {each["id"]: _text(each) for each in world.memories}
        questions = [
            Question(_OF_DATA, "known" if each["relevant"] else "unknown", False, each["text"], right)
            for each in world.prompts
            if each["kind"] == "twin"
            for right in [next((texts[memory] for memory in each["relevant"]), None)]
        ]
        if questions:
            yield World(tuple(texts.values()), tuple(questions))


def _text(memory: Mapping[str, str]) -> str:
    fields = ("trigger", "error_pattern", "diagnosis", "fix")
    return memory.get("text") or ". ".join(memory[each] for each in fields if memory.get(each))


async def _ask(client: AsyncClient, namespace: str, world: World) -> list[Outcome]:
    ids = {}
    for number, memory in enumerate(world.memories):
        saved = await client.save_knowledge(f"note-{number}", memory, namespace=namespace)
        ids[memory] = saved.id
    await drained(client)
    outcomes = []
    for question in world.questions:
        answer = await client.context(question.text, namespace=namespace, budget_tokens=_BUDGET)
        given = {passage.id for passage in answer.results}
        right = {ids[question.right]} if question.right else set()
        outcomes.append(Outcome(question, bool(given & right), bool(given - right)))
    return outcomes


def _by_kind(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    for kind in dict.fromkeys(each.question.kind for each in outcomes):
        some = [each for each in outcomes if each.question.kind == kind]
        yield from _figures(some, f"{kind}: ", judged=False)


def _figures(outcomes: Sequence[Outcome], prefix: str, *, judged: bool) -> Iterator[Figure]:
    """Yield the shares of general rules and right memories given, of twins alone, and of nothing given."""
    of_rules = [each.is_right for each in outcomes if each.question.asked == "rule"]
    known = [each for each in outcomes if each.question.asked == "known"]
    unknown = [not each.is_other for each in outcomes if each.question.asked == "unknown"]
    alone = [each.is_other and not each.is_right for each in known]
    rows = (
        ("general rule given", of_rules, None),
        ("right one given", [each.is_right for each in known], at_least(LEAST_RIGHT, "right")),
        ("a twin alone", alone, at_most(MOST_TWIN_ALONE, "alone")),
        ("unknown, nothing given", unknown, at_least(LEAST_NOTHING, "nothing")),
    )
    for name, hits, bar in rows:
        if hits:
            share = sum(hits) / len(hits)
            yield Figure(
                name=f"{prefix}{name}", value=share, unit=f"of {len(hits)}", bar=bar if judged else None
            )
