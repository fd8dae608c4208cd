"""Estimate the probability that a memory concerns an action, by the names and words of both. No I/O.

A learning concerns an action that does what its trigger says; another memory, one that does something with
what it is about. An action that already does what a memory says to do needs none. docs/relevance.md names
the data on which the weights were fitted, and says why similarities of meaning are not among them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple, TypeAlias

from agentctx.service.rag.action import ActionNames, operations_of, parts_of, stems_in, things_of
from agentctx.service.rag.relevance import probability
from agentctx.service.rag.terms import Alternatives, MemoryTerm, TermKind, alternatives_in
from agentctx.service.rag.word_match import stem_of

BY_FOLDER = 0.6
"""Match of a path that lies in a folder which the action changes as a whole."""
BY_OPERATION, BY_THING = 0.7, 0.35
"""Match of words that mean the same operation, "emptying" and `FLUSHALL`, or thing, "database" and `psql`."""
_CHANGING = frozenset({"remove", "modify", "format", "move"})
_HOST = re.compile(r"..[-\d]|[-\d]..")


def match(term: MemoryTerm, action: ActionNames) -> float:
    """Return how well an action matches a term, 0 to 1."""
    text = term.text.lower()
    if term.kind == "flag":
        return float(term.text.partition("=")[0] in action.flags)
    if term.kind == "word":
        return word_match(text, action)
    return 1.0 if _is_named(text, action) else path_match(text, action)


def word_match(word: str, action: ActionNames) -> float:
    """Return how well an action matches a word in lower case."""
    if word in action.programs or stem_of(word) in action.stems:
        return 1.0
    if operations_of(word) & action.operations:
        return BY_OPERATION
    return BY_THING if things_of(word) & action.things else 0.0


def path_match(text: str, action: ActionNames) -> float:
    """Return 1 if the action is at or below a path, or at a host; less if it changes a folder above."""
    wanted = parts_of(text.removeprefix("~")) if "/" in text or "." in text else ()
    folder = parts_of(action.folder)
    if not wanted or any(_holds(path, wanted) for path in (*action.paths, folder)):
        return float(bool(wanted))
    is_changing = not _CHANGING.isdisjoint(action.operations)
    below = (path[len(folder) :] for path in action.paths if is_changing)
    return BY_FOLDER if any(parts and parts == wanted[: len(parts)] for parts in below) else 0.0


def _is_named(text: str, action: ActionNames) -> bool:
    """Return whether an argument or a program contains a name, or a host of that first label."""
    if _pattern(text.rstrip("/")).search(action.named):
        return True
    label = text.partition(".")[0]
    is_host = "." in text and "/" not in text and bool(_HOST.search(label))
    return is_host and bool(_pattern(label).search(action.named))


def _pattern(text: str) -> re.Pattern[str]:
    """Return what matches a name, with its placeholders: `tw-*`, `depot-NN`, `<ticket>/x`."""
    body = re.escape(text).replace(r"\*", r"[^/\s]*")
    body = re.sub(r"<[^>]*>", r"[^/\\s]+", body)
    body = re.sub(r"\\-n+$", r"-\\d+", body)
    end = r"\d*(?![a-z0-9])" if text[-1:].isalpha() else r"(?![a-z0-9])"
    return re.compile(rf"(?<![a-z0-9]){body}{end}")


def _holds(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not any("*" in part for part in wanted):
        return f"/{'/'.join(wanted)}/" in f"/{'/'.join(parts)}/"
    starts = range(len(parts) - len(wanted) + 1)
    return any(all(map(fnmatchcase, parts[at : at + len(wanted)], wanted)) for at in starts)


Rarity: TypeAlias = Mapping[str, float]
"""The idf of stems, 0 to 1; others are as rare as can be."""

_WEIGHT: Final[Mapping[TermKind, float]] = {"flag": 1.5, "name": 1.5, "word": 1.0}
_MISSED_WORD: Final = 0.45
"""Weight of a word of a trigger that the action lacks: it may be mere wording."""
_ENOUGH: Final = 5.0
"""The sum of weights that counts as full."""
_USUAL_SIZE: Final = 30
"""The size of the memories on which the weights were fitted."""
_SHORT_FLAG: Final = 2


class MemoryTerms(NamedTuple):
    """The terms of a memory: what it is about, for a learning its trigger, and what it says to do."""

    about: Sequence[Alternatives]
    fix: Sequence[MemoryTerm]
    stems: frozenset[str]
    is_learning: bool


class Evidence(NamedTuple):
    """What speaks for a concern, or against it, each 0 to 1 (`reads`: 0 to 2), or its weight in log odds."""

    coverage: float
    """Share of the terms, by weight, that the action matches."""
    mass: float
    """Weight of the matched terms, relative to `_ENOUGH`."""
    reads: float
    """1 if the action changes nothing, 2 if it is the reading of a file."""
    writes: float = 0.0
    """For a text, not a learning: how well a path in it matches, if the action changes anything."""
    constant: float = 1.0


OF_LEARNING = Evidence(coverage=10.5, mass=6.7, reads=-1.6, constant=-9.5)
OF_TEXT = Evidence(coverage=9.7, mass=13.5, reads=-4.4, writes=2.8, constant=-7.1)


def terms_of_text(text: str) -> MemoryTerms:
    """Return the terms of a rule or a fact."""
    return MemoryTerms(alternatives_in(text), (), stems_in(text), is_learning=False)


def terms_of_learning(trigger: str, fix: str, more: str = "") -> MemoryTerms:
    """Return the terms of a learning. The rest of its text counts for rarity alone."""
    stems = stems_in(f"{trigger} {fix} {more}")
    return MemoryTerms(alternatives_in(trigger), _flat(alternatives_in(fix)), stems, is_learning=True)


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
    weights = OF_LEARNING if memory.is_learning else OF_TEXT
    return probability(sum(map(mul, weights, evidence(memory, action, rarity))))


def follows(memory: MemoryTerms, action: ActionNames) -> bool:
    """Return whether an action already does what a memory says to do, or lacks what it warns of."""
    about = _flat(memory.about)
    said = {stem for term in about for stem in stems_in(term.text)}
    advised = [term for term in about if term.is_means or "<" in term.text]
    if memory.is_learning:
        advised = [term for term in memory.fix if not (term.is_denied or stems_in(term.text) <= said)]
    names = [term for term in advised if term.kind != "word" and len(term.text) > _SHORT_FLAG]
    names += [term for term in about if term.is_excepted and term.kind != "word"]
    return any(match(term, action) == 1 for term in names) or any(
        first.text.lower() in action.programs and word_match(second.text.lower(), action) == 1
        for first, second in pairwise(() if memory.is_learning else advised)
    )


def evidence(memory: MemoryTerms, action: ActionNames, rarity: Rarity) -> Evidence:
    """Compare a memory with an action."""
    total = got = 0.0
    for terms in memory.about:
        if wanted := [term for term in terms if not term.is_excepted]:
            matched = max(match(term, action) for term in wanted)
            is_wording = memory.is_learning and terms[0].kind == "word" and not matched
            weight = _weight(terms[0], rarity) * (_MISSED_WORD if is_wording else 1.0)
            total, got = total + weight, got + weight * matched
    reads = float(action.is_reading) * (2.0 if action.is_file else 1.0)
    seen = Evidence(got / total if total else 0.0, min(1.0, got / _ENOUGH), reads)
    if memory.is_learning:
        return seen
    at = (path_match(term.text.lower(), action) for term in _flat(memory.about))
    return seen if action.is_reading else seen._replace(writes=max(at, default=0.0))


def _weight(term: MemoryTerm, rarity: Rarity) -> float:
    return _WEIGHT[term.kind] * min((rarity.get(stem, 1.0) for stem in stems_in(term.text)), default=1.0)


def _flat(groups: Iterable[Alternatives]) -> list[MemoryTerm]:
    return [term for terms in groups for term in terms]
