"""Estimate the probability that a memory concerns an action, by the names and words of both. No I/O.

A learning concerns an action that does what its trigger says; another memory, one that does something with
what it is about. An action that already does what a memory says to do needs none. docs/relevance.md names
the data on which the weights were fitted, and says why similarities of meaning are not among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple, TypeAlias

from agentctx.service.rag.action import ActionNames, operations, stems_in
from agentctx.service.rag.name_match import is_path, match, path_match, word_match
from agentctx.service.rag.relevance import probability
from agentctx.service.rag.terms import MemoryTerm, TermGroup, TermKind, term_groups
from agentctx.service.rag.word_match import stem_of

Rarity: TypeAlias = Mapping[str, float]
"""The idf of stems, 0 to 1; others are as rare as can be."""

_WEIGHT: Final[Mapping[TermKind, float]] = {"flag": 1.5, "name": 1.6, "dashed": 1.2, "word": 1.0}
_MISSED_WORD: Final = 0.6
"""Weight of a word of a trigger that the action lacks: it may be mere wording."""
_ENOUGH: Final = 4.0
"""The sum of weights that counts as full."""
_USUAL_SIZE: Final = 30
"""The size of the memories on which the weights were fitted."""
_SHORT_FLAG: Final = 2
_CACHED: Final = 2_048


class MemoryTerms(NamedTuple):
    """The terms of a memory: what it is about, for a learning its trigger, and what it says to do."""

    about: tuple[TermGroup, ...]
    fix: tuple[TermGroup, ...]
    stems: frozenset[str]
    is_learning: bool


class Evidence(NamedTuple):
    """What speaks for a concern, or against it, each 0 to 1 (`reads`: 0 to 2)."""

    coverage: float
    """Share of the terms, by weight, that the action matches."""
    mass: float
    """Weight of the matched terms, relative to `_ENOUGH`."""
    reads: float
    """1 if the action changes nothing, 2 if it is the reading of a file."""
    head: float = 0.0
    """For a learning: the coverage of its trigger before any condition."""
    no_flag: float = 0.0
    """For a learning: whether its trigger has flags, and the action none of them."""
    does: float = 0.0
    """For others: whether the action does something that the text speaks of."""
    writes: float = 0.0
    """For others: how well what is written matches a path."""


OF_LEARNING = Evidence(coverage=4.7, mass=3.0, reads=-1.15, head=4.2, no_flag=-0.9)
OF_TEXT = Evidence(coverage=4.9, mass=7.8, reads=-1.9, does=0.5, writes=3.5)
"""The weights of the evidence in the log odds."""
CONSTANT_OF_LEARNING, CONSTANT_OF_TEXT = -7.45, -6.1


@lru_cache(_CACHED)
def terms_of_text(text: str) -> MemoryTerms:
    """Return the terms of a rule or a fact."""
    return MemoryTerms(tuple(term_groups(text)), (), stems_in(text), is_learning=False)


@lru_cache(_CACHED)
def terms_of_learning(trigger: str, fix: str, more: str = "") -> MemoryTerms:
    """Return the terms of a learning. The rest of its text counts for rarity alone."""
    stems = stems_in(f"{trigger} {fix} {more}")
    return MemoryTerms(tuple(term_groups(trigger)), tuple(term_groups(fix)), stems, is_learning=True)


def rarity_among(memories: Iterable[MemoryTerms]) -> dict[str, float]:
    """Return the idf of the stems of these memories, scaled to 0 to 1."""
    return scaled_idf([memory.stems for memory in memories])


def scaled_idf(sets: list[frozenset[str]]) -> dict[str, float]:
    """Return the idf of words among sets of words, scaled to 0 to 1.

    Fewer sets than `_USUAL_SIZE` were chosen for their words, so the others count as sets without them.
    """
    counts = Counter(word for words in sets for word in words)
    size = max(len(sets), _USUAL_SIZE)
    return {word: math.log(1 + size / (count + 0.5), 1 + 2 * size) for word, count in counts.items()}


def concern(memory: MemoryTerms, action: ActionNames, rarity: Rarity) -> float:
    """Return the probability that a memory concerns an action; 0 if the action follows it already."""
    if follows(memory, action):
        return 0.0
    weights, constant = (OF_TEXT, CONSTANT_OF_TEXT)
    if memory.is_learning:
        weights, constant = (OF_LEARNING, CONSTANT_OF_LEARNING)
    return probability(sum(map(mul, weights, evidence(memory, action, rarity))) + constant)


def follows(memory: MemoryTerms, action: ActionNames) -> bool:
    """Return whether an action already does what a memory says to do, or lacks what it warns of."""
    about = list(_terms(memory.about))
    said = {stem for term in about for stem in stems_in(term.text)}
    advised = [term for term in about if term.is_means or "<" in term.text]
    if memory.is_learning:
        advised = [term for term in _terms(memory.fix) if not (term.is_denied or stems_in(term.text) <= said)]
    names = [term for term in advised if term.kind != "word" and len(term.text) > _SHORT_FLAG]
    names += [term for term in about if term.is_excepted and term.kind != "word"]
    return any(match(term, action) == 1 for term in names) or any(
        first.text.lower() in action.programs and word_match(second.text.lower(), action) == 1
        for first, second in pairwise(() if memory.is_learning else advised)
    )


def evidence(memory: MemoryTerms, action: ActionNames, rarity: Rarity) -> Evidence:
    """Compare a memory with an action."""
    rows = [_weighed(group, action, rarity, memory) for group in memory.about]
    got = sum(weight * matched for _, matched, weight in rows)
    seen = Evidence(
        coverage=_coverage(rows),
        mass=min(1.0, got / _ENOUGH),
        reads=float(action.is_reading) * (2.0 if action.is_file else 1.0),
    )
    if memory.is_learning:
        flags = [matched for group, matched, _ in rows if group.kind == "flag" and not group.is_optional]
        head = _coverage([row for row in rows if row[0].is_head])
        return seen._replace(head=head, no_flag=float(bool(flags) and not any(flags)))
    told = {each for term in _terms(memory.about) for each in _operations(term)}
    written = (path_match(each.text, action, "written") for each in _terms(memory.about) if is_path(each))
    return seen._replace(does=float(not told.isdisjoint(action.operations)), writes=max(written, default=0.0))


_Weighed: TypeAlias = tuple[TermGroup, float, float]
"""A group, its match and its weight."""


def _weighed(group: TermGroup, action: ActionNames, rarity: Rarity, memory: MemoryTerms) -> _Weighed:
    matched = max((match(term, action) for term in group.terms if not term.is_excepted), default=0.0)
    if not matched and (group.is_optional or all(term.is_excepted for term in group.terms)):
        return group, 0.0, 0.0
    rare = min((rarity.get(stem, 1.0) for stem in stems_in(group.terms[0].text)), default=1.0)
    is_wording = memory.is_learning and group.kind == "word" and not matched
    return group, matched, _WEIGHT[group.kind] * rare * (_MISSED_WORD if is_wording else 1.0)


def _coverage(rows: Iterable[_Weighed]) -> float:
    rows = list(rows)
    total = sum(weight for _, _, weight in rows)
    return sum(weight * matched for _, matched, weight in rows) / total if total else 0.0


def _operations(term: MemoryTerm) -> frozenset[str]:
    return operations().by_stem.get(stem_of(term.text.lower()), frozenset())


def _terms(groups: Iterable[TermGroup]) -> Iterator[MemoryTerm]:
    return (term for group in groups for term in group.terms)
