"""What a call gets, also judged by what it must not get: the fixtures of PrecisionMemBench.

`--fixtures` is a folder with `beliefs.seed.json`, `retrieval.cases.json` and `session-retrieval.cases.json`.
As its protocol says, a belief is saved with its names, its content and why it matters as one text, a scope
is a namespace, and a case is asked as the prompt of a call. A newer belief supersedes what it replaces, and
a note resolves what was settled. Pinned beliefs are not judged, because the
benchmark gives them to every call; neither are the persona and the lists of open questions beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentctx.client.async_client import AsyncClient
from benchmarks.daemons import running
from benchmarks.figures import Figure, at_least
from benchmarks.options import Options

LEAST_PRECISION, LEAST_RECALL = 0.80, 0.88
MAX_BELIEFS = 20
"""How many beliefs a call may get, pinned ones included, if the case does not say."""
MAX_CUES = 8
USER = "test-user"

Belief: TypeAlias = Mapping[str, Any]


class Judged(NamedTuple):
    """What a case got. `precision` is None if there was nothing to find and nothing came, `recall` if there
    was nothing to find.
    """

    passed: bool
    precision: float | None
    recall: float | None


def judge(got: Sequence[str], expected: Mapping[str, Any]) -> Judged:
    """Judge the ids that a call got by the `relevantBeliefs` of a case."""
    only, found = set(expected.get("shouldOnlyInclude", ())), set(got)
    passed = found.isdisjoint(expected.get("mustExclude", ()))
    if "shouldOnlyInclude" in expected:
        passed = passed and found == only
    hits = len(found & only)
    precision = hits / len(found) if found else 0.0 if only else None
    return Judged(passed, precision, hits / len(only) if only else None)


@dataclass(slots=True)
class Memory:
    """The beliefs that are known so far, in a daemon.

    `saved` maps entries to beliefs; the notes that resolve a belief are not among them.
    """

    client: AsyncClient
    aliases_as_cues: bool
    beliefs: dict[str, Belief] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)

    async def save(self, belief: Belief) -> None:
        """Save a belief, or change its text, in each of its scopes, after what it supersedes."""
        self.beliefs[belief["_id"]] = belief
        for scope in belief["scope"]:
            entry = await self.client.save_knowledge(
                belief["canonical_name"],
                text_of(belief, with_aliases=not self.aliases_as_cues),
                category="preference" if belief["type"] == "preference" else "fact",
                namespace=_namespace(belief["user_id"], scope),
                cues=belief["aliases"][:MAX_CUES] if self.aliases_as_cues else None,
                supersedes=superseded_by(belief, scope, self.beliefs.values()) or None,
                wait="embedded",
            )
            self.saved[entry.id] = belief["_id"]
            if belief["resolved_at"]:
                await self._resolve(belief["canonical_name"], _namespace(belief["user_id"], scope))

    async def _resolve(self, key: str, namespace: str) -> None:
        """Save a note that what has this key is settled."""
        await self.client.save_knowledge(
            f"{key}-resolved", "This is settled.", namespace=namespace, resolves=[key], wait="embedded"
        )

    async def ask(self, prompt: str, user: str, scopes: Sequence[str], most: int = MAX_BELIEFS) -> list[str]:
        """Return the ids of the beliefs that a call gets besides the pinned ones, scopes in turns."""
        mine = [each for each in self.beliefs.values() if _is_visible(each, user, scopes)]
        pinned = {each["_id"] for each in mine if each["pinned"] and each["type"] != "open_question"}
        asked = scopes if prompt.strip() and most else ()
        answers = [await self._answer(prompt, _namespace(user, scope), most) for scope in asked]
        got = dict.fromkeys(each for each in chain(*zip_longest(*answers)) if each and each not in pinned)
        got |= dict.fromkeys(participants([self.beliefs[each] for each in got], mine, pinned))
        return list(got)[: max(0, most - len(pinned))]

    async def _answer(self, prompt: str, namespace: str, limit: int) -> list[str]:
        reply = await self.client.context(prompt, namespace=namespace, limit=limit)
        if reply.degraded:
            raise RuntimeError(f"an answer had no meaning in it: {reply.degraded}")
        return [self.saved[each.id] for each in reply.results if each.id in self.saved]


def text_of(belief: Belief, *, with_aliases: bool) -> str:
    """Return the text under which a belief is saved."""
    names = [belief["canonical_name"], *(belief["aliases"] if with_aliases else ())]
    return " ".join([*names, belief["content"], belief["why_it_matters"]])


def superseded_by(belief: Belief, scope: str, known: Iterable[Belief]) -> list[str]:
    """Return the keys of the beliefs in a scope that a belief supersedes."""
    return [
        older["canonical_name"]
        for older in known
        if older["superseded_by"] == belief["_id"]
        and older["user_id"] == belief["user_id"]
        and scope in older["scope"]
    ]


def participants(relations: Iterable[Belief], visible: Iterable[Belief], pinned: set[str]) -> Iterator[str]:
    """Yield the visible beliefs that the benchmark itself adds to a relation which a call gets."""
    related = {each for relation in relations for each in relation.get("participants", ())}
    for belief in visible:
        if belief["_id"] in related - pinned and belief["type"] != "open_question":
            yield belief["_id"]


def _is_visible(belief: Belief, user: str, scopes: Sequence[str]) -> bool:
    is_live = not (belief["superseded_by"] or belief["resolved_at"])
    return is_live and belief["user_id"] == user and not set(scopes).isdisjoint(belief["scope"])


def _namespace(user: str, scope: str) -> str:
    return f"{user}-{scope.replace(':', '-')}"


async def measure(options: Options) -> list[Figure]:
    """Ask all cases, then the turns of the sessions, with the changes to the beliefs that these make."""
    assert options.fixtures is not None
    async with running() as client:
        memory = Memory(client, options.aliases_as_cues)
        for belief in sorted(_read(options.fixtures, "beliefs.seed"), key=lambda each: each["created_at"]):
            await memory.save(belief)
        cases = [await _case(memory, case) for case in _read(options.fixtures, "retrieval.cases")]
        sessions = _read(options.fixtures, "session-retrieval.cases")
        turns = [await _turn(memory, turn) for session in sessions for turn in session["turns"]]
    return figures(cases, turns)


async def _case(memory: Memory, case: Mapping[str, Any]) -> Judged:
    most = case.get("budget", {}).get("maxBeliefs", MAX_BELIEFS)
    got = await memory.ask(case["query"], case.get("userId", USER), case["scope"], most)
    return _shown(case["caseId"], got, case["expect"].get("relevantBeliefs", {}))


async def _turn(memory: Memory, turn: Mapping[str, Any]) -> Judged:
    got = await memory.ask(turn["userMessage"], USER, turn["scope"])
    judged = _shown(f"turn {turn['turnIndex']}", got, turn["expect"]["relevantBeliefs"])
    if created := turn.get("createBeliefAtTurn"):
        await memory.save(created)
    if update := turn.get("updateBeliefAtTurn"):
        belief = memory.beliefs[update["beliefId"]]
        await memory.save({**belief, "aliases": [*belief["aliases"], *update["addAliases"]]})
    return judged


def _shown(name: str, got: Sequence[str], expected: Mapping[str, Any]) -> Judged:
    """Judge a case, and print what it should have got if it fails."""
    judged = judge(got, expected)
    if not judged.passed:
        only = set(expected.get("shouldOnlyInclude", ()))
        wrong = [*(f"+{each}" for each in got if each not in only), *(f"-{each}" for each in only - set(got))]
        print(f"{name}: {' '.join(sorted(wrong))}")
    return judged


def figures(cases: Sequence[Judged], turns: Sequence[Judged]) -> list[Figure]:
    """Return mean precision and recall of the cases, and how many cases and turns pass."""
    precision = _mean(each.precision for each in cases)
    recall = _mean(each.recall for each in cases)
    passes, session = (sum(each.passed for each in some) for some in (cases, turns))
    return [
        Figure(name="precision", value=precision, unit="", bar=at_least(LEAST_PRECISION, "mean")),
        Figure(name="recall", value=recall, unit="", bar=at_least(LEAST_RECALL, "mean")),
        Figure(name="passes", value=passes, unit=f"of {len(cases)}"),
        Figure(name="session", value=session, unit=f"of {len(turns)}"),
    ]


def summary(measured: Sequence[Figure]) -> str:
    """Return the figures as one line: `precision .62 recall .87 passes 48 of 77 session 5 of 12`."""
    shares = (f"{each.name} {f'{each.value:.2f}'.removeprefix('0')}" for each in measured if not each.unit)
    return " ".join([*shares, *(f"{each.name} {each.value:g} {each.unit}" for each in measured if each.unit)])


def _mean(values: Iterable[float | None]) -> float:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else 0.0


def _read(folder: Path, name: str) -> list[Any]:
    rows: list[Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return rows
