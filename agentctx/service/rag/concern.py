"""Estimate the probability that a memory concerns an action: by the names of both, then by meaning. No I/O.

A learning concerns an action that does what its trigger says; another memory, one that does something with
what it is about. Whoever already does what a memory says to do is told nothing. docs/relevance.md names the
data on which the weights were fitted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple, TypeAlias

from agentctx.service.rag.action import ActionNames, operations, stems_in
from agentctx.service.rag.name_match import is_path, match, path_match, word_match
from agentctx.service.rag.relevance import probability
from agentctx.service.rag.terms import Term, TermGroup, TermKind, term_groups
from agentctx.service.rag.word_match import stem_of

Rarity: TypeAlias = Mapping[str, float]
"""The idf of stems, 0 to 1; others are as rare as can be."""
Match: TypeAlias = tuple[TermGroup, float]

_WEIGHT: Final[Mapping[TermKind, float]] = {"flag": 1.5, "name": 1.6, "dashed": 1.2, "word": 1.0}
_MISSED_WORD: Final = 0.6
"""Weight of a word of a trigger that the action lacks: it may be mere wording."""
_ENOUGH: Final = 4.0
"""The sum of weights that counts as full."""
_SHORT_FLAG: Final = 2
UNKNOWN_MEANING: Final = 0.35
"""The similarity assumed where there is no vector."""


@dataclass(frozen=True, slots=True)
class MemoryTerms:
    """The terms of a memory: what it is about, and for a learning what to do (`fix`) and why."""

    about: tuple[TermGroup, ...]
    stems: frozenset[str]
    is_learning: bool = False
    fix: tuple[TermGroup, ...] = ()
    why: tuple[TermGroup, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> MemoryTerms:
        """Return the terms of a rule or a fact."""
        return cls(tuple(term_groups(text)), frozenset(stems_in(text)))

    @classmethod
    def of_learning(cls, trigger: str, *, fix: str = "", diagnosis: str = "", error: str = "") -> MemoryTerms:
        """Return the terms of a learning. Its error is known only later, so it counts for rarity alone."""
        about, fixed, why = (tuple(term_groups(text)) for text in (trigger, fix, diagnosis))
        stems = frozenset(stems_in(f"{trigger} {fix} {diagnosis} {error}"))
        return cls(about, stems, is_learning=True, fix=fixed, why=why)


class Evidence(NamedTuple):
    """What speaks for a concern, or against it, each 0 to 1 (`reads`: 0 to 2)."""

    coverage: float
    """Share of the terms, by weight, that the action matches."""
    head: float = 0.0
    """The same before any condition of a trigger."""
    mass: float = 0.0
    """Weight of the matched terms, relative to `_ENOUGH`."""
    flag: float = 0.0
    no_flag: float = 0.0
    """Whether a trigger's flags are given, or none of them."""
    why: float = 0.0
    """Weight of the diagnosis's terms that match."""
    no_name: float = 0.0
    """Whether the first thing that a text names is not in the action."""
    later: float = 0.0
    """How well the action matches what is named later."""
    does: float = 0.0
    """Whether the action does something that the text speaks of."""
    writes: float = 0.0
    """How well what is written matches a path."""
    reads: float = 0.0
    """1 if the action changes nothing, 2 if it is the reading of a file."""
    meaning: float = UNKNOWN_MEANING
    """The cosine similarity."""


OF_LEARNING = Evidence(4.1, 3.6, 2.4, flag=0.5, no_flag=-1.0, why=0.8, reads=-1.0, meaning=3.3)
OF_TEXT = Evidence(3.4, mass=5.4, no_name=-1.2, later=-1.7, does=1.2, writes=3.0, reads=-1.9, meaning=4.5)
"""The weights of the evidence in the log odds."""
CONSTANT_OF_LEARNING, CONSTANT_OF_TEXT = -8.1, -6.35


def concern(memory: MemoryTerms, action: ActionNames, rarity: Rarity, similarity: float | None) -> float:
    """Return the probability that a memory concerns an action; 0 if the action follows it already."""
    if follows(memory, action):
        return 0.0
    seen = evidence(memory, action, rarity, UNKNOWN_MEANING if similarity is None else similarity)
    weights, constant = (
        (OF_LEARNING, CONSTANT_OF_LEARNING) if memory.is_learning else (OF_TEXT, CONSTANT_OF_TEXT)
    )
    return probability(sum(map(mul, weights, seen)) + constant)


def rarity_among(memories: Iterable[MemoryTerms]) -> dict[str, float]:
    """Return the idf of the stems of these memories, scaled to 0 to 1."""
    sets = [memory.stems for memory in memories]
    counts = Counter(stem for stems in sets for stem in stems)
    most = math.log(1 + 2 * max(len(sets), 1))
    return {stem: math.log(1 + len(sets) / (count + 0.5)) / most for stem, count in counts.items()}


def follows(memory: MemoryTerms, action: ActionNames) -> bool:
    """Return whether an action already does what a memory says to do, or lacks what it warns of."""
    said = {stem for term in _terms(memory.about) for stem in stems_in(term.text)}
    advised = [term for term in _terms(memory.fix) if not stems_in(term.text) <= said]
    if not memory.is_learning:
        advised = [term for term in _terms(memory.about) if term.is_means or "<" in term.text]
    names = [term for term in advised if term.kind != "word" and not term.is_denied]
    names = [term for term in names if len(term.text) > _SHORT_FLAG]
    names += [term for term in _terms(memory.about) if term.is_excepted and term.kind != "word"]
    return any(match(term, action) == 1 for term in names) or any(
        first.text.lower() in action.programs and word_match(second.text.lower(), action) == 1
        for first, second in pairwise(() if memory.is_learning else advised)
    )


def evidence(memory: MemoryTerms, action: ActionNames, rarity: Rarity, similarity: float) -> Evidence:
    """Compare a memory with an action."""
    rows = list(_matches(memory.about, action))
    seen = Evidence(
        coverage=_coverage(rows, rarity),
        mass=_mass(rows, rarity),
        reads=float(action.is_reading) + float(action.is_reading and action.is_file),
        meaning=max(0.0, similarity),
    )
    return (_of_learning if memory.is_learning else _of_text)(memory, action, rarity, rows, seen)


def _of_learning(
    memory: MemoryTerms, action: ActionNames, rarity: Rarity, rows: Sequence[Match], seen: Evidence
) -> Evidence:
    flags = [matched for group, matched in rows if group.kind == "flag" and not group.is_optional]
    rows = [(group, matched if matched or group.kind != "word" else -1.0) for group, matched in rows]
    return seen._replace(
        coverage=_coverage(rows, rarity),
        head=_coverage([row for row in rows if row[0].is_head], rarity),
        flag=float(any(flags)),
        no_flag=float(bool(flags) and not any(flags)),
        why=_mass(list(_matches(memory.why, action)), rarity),
    )


def _of_text(
    memory: MemoryTerms,  # noqa: ARG001 - as for a learning
    action: ActionNames,
    rarity: Rarity,  # noqa: ARG001
    rows: Sequence[Match],
    seen: Evidence,
) -> Evidence:
    named = [(group, matched) for group, matched in rows if group.kind == "name" and not group.is_optional]
    named = [row for row in named if not any(term.is_means or "<" in term.text for term in row[0].terms)]
    terms = list(_terms([group for group, _ in rows]))
    told = {each for term in terms for each in operations().by_stem.get(stem_of(term.text.lower()), ())}
    written = (path_match(term.text, action, "written") for term in terms if is_path(term))
    return seen._replace(
        no_name=float(bool(named) and not named[0][1]),
        later=max((matched for _, matched in named[1:]), default=0.0),
        does=float(not told.isdisjoint(action.operations)),
        writes=max(written, default=0.0),
    )


def _matches(groups: Iterable[TermGroup], action: ActionNames) -> Iterator[Match]:
    """Yield each group with its best match, without what the text excepts."""
    for group in groups:
        if terms := [term for term in group.terms if not term.is_excepted]:
            yield group, max(match(term, action) for term in terms)


def _coverage(rows: Sequence[Match], rarity: Rarity) -> float:
    """Return the share of the weight that is matched; a match of -1 is none that weighs less."""
    total = sum(_weight(group, matched, rarity) for group, matched in rows)
    return _sum(rows, rarity) / total if total else 0.0


def _mass(rows: Sequence[Match], rarity: Rarity) -> float:
    return min(1.0, _sum(rows, rarity) / _ENOUGH)


def _sum(rows: Sequence[Match], rarity: Rarity) -> float:
    return sum(_weight(group, matched, rarity) * max(matched, 0.0) for group, matched in rows)


def _weight(group: TermGroup, matched: float, rarity: Rarity) -> float:
    if group.is_optional and matched <= 0:
        return 0.0
    rare = min((rarity.get(stem, 1.0) for stem in stems_in(group.terms[0].text)), default=1.0)
    return _WEIGHT[group.kind] * rare * (_MISSED_WORD if matched < 0 else 1.0)


def _terms(groups: Iterable[TermGroup]) -> Iterator[Term]:
    return (term for group in groups for term in group.terms)
