"""Decide between passages by what a question names: one has the name, another only a twin of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agentctx.service.rag.candidate import Candidate, Standing
from agentctx.service.rag.names import Name, TextNames, are_twins, is_same, names_of
from agentctx.service.rag.prompt import focus_of, own_words, parts_of
from agentctx.service.rag.ranking import searched_texts
from agentctx.service.rag.relevance import log_odds, probability
from agentctx.storage.search import ResolvedChunk
from agentctx.storage.stop_words import STOP_WORDS

MAX_EXACT = 3
"""A name that more passages have does not say which of them is right."""
HAS = 2.0
"""What is added to the log odds of a passage that has the name, if another one has only a twin."""
MAX_TWIN, MIN_EXACT = 0.02, 0.5
"""Relevance of a passage that is left out because of names, and of one with the very identifier: in worlds
written by hand, one in fifty was right, and one in two."""
MIN_GENERAL = 0.7
"""Relevance with which a passage without any such name passes although only twins of it are known."""
LONGEST_TWIN = 600
"""Characters of a passage that can be a twin."""
MIN_LOOK_ALIKE, MAX_REST = 4, 6
"""Two words look alike if they begin with the same letters and end in few others."""


class _Row(NamedTuple):
    """How each passage stands to one name of a question. `is_key`: the question is about that name."""

    standings: Sequence[Standing | None]
    is_key: bool


def by_names(
    question: str, rated: Sequence[Candidate], texts: Mapping[int, ResolvedChunk]
) -> list[Candidate]:
    """Set the standing of each candidate and adapt its relevance.

    The very identifier goes before what is not more relevant, twins go below what has the name.
    Nothing is a twin while another chunk of its entry has the name.
    """
    read = [each for each in rated if each.chunk in texts]
    found = standings(question, ["\n".join(searched_texts(texts[each.chunk])) for each in read])
    having = {each.entry for each, standing in zip(read, found, strict=True) if standing in {"exact", "has"}}
    standing_of = {each.chunk: standing for each, standing in zip(read, found, strict=True)}
    weighed = [_weighed(each, standing_of.get(each.chunk), having, decides="twin" in found) for each in rated]
    return _twins_last(_exact_first(weighed))


def _exact_first(candidates: list[Candidate]) -> list[Candidate]:
    """Move what has the very identifier before what is not more relevant."""

    def place(at: int) -> float:
        each = candidates[at]
        less = (other for other, one in enumerate(candidates[:at]) if one.relevance <= each.relevance)
        return next(less, at) - 0.5 if each.names == "exact" else at

    return [candidates[at] for at in sorted(range(len(candidates)), key=place)]


def _twins_last(candidates: list[Candidate]) -> list[Candidate]:
    """Move twins below what has the name, and below what is more relevant."""
    better = (
        at
        for at, each in enumerate(candidates)
        if each.names in {"exact", "has"} or each.relevance > MAX_TWIN
    )
    last = max(better, default=-1) + 1
    return sorted(candidates[:last], key=lambda each: each.names == "twin") + candidates[last:]


def _weighed(
    candidate: Candidate, standing: Standing | None, having: set[str], *, decides: bool
) -> Candidate:
    relevance = candidate.relevance
    if standing in {"twin", "unknown"}:
        if candidate.entry in having or (standing == "unknown" and relevance >= MIN_GENERAL):
            return candidate
        return candidate._replace(names=standing, relevance=min(relevance, MAX_TWIN))
    if standing and decides and not candidate.by_words and 0 < relevance < 1:
        relevance = probability(log_odds(relevance) + HAS)
    if standing == "exact":
        relevance = max(relevance, MIN_EXACT)
    return candidate._replace(names=standing, relevance=relevance)


def standings(question: str, passages: Sequence[str]) -> list[Standing | None]:
    """Return how each passage stands to what a question names; None if names do not decide."""
    text = own_words(question)
    asked, focus = names_of(text), names_of(focus_of(question))
    known = [names_of(each) for each in passages]
    rows = [*_rows_of_names(asked, focus, known), *_rows_of_words(asked, focus, known)]
    is_unknown = any(
        row.is_key and "twin" in row.standings and not {"exact", "has"} & {*row.standings} for row in rows
    )
    rows = [row._replace(standings=_of_one_thing(row.standings, passages)) for row in rows]
    order: tuple[Standing, ...] = ("twin", *(("unknown",) if is_unknown else ()), "exact", "has")
    default: Standing | None = "unknown" if is_unknown else None
    columns = ([row.standings[at] for row in rows] for at in range(len(known)))
    return [next((each for each in order if each in column or each == default), None) for column in columns]


def _of_one_thing(row: Sequence[Standing | None], passages: Sequence[str]) -> list[Standing | None]:
    """Take a long passage for no twin: it is about more than what it names."""
    return [
        None if each == "twin" and len(passage) > LONGEST_TWIN else each
        for each, passage in zip(row, passages, strict=True)
    ]


def _rows_of_names(asked: TextNames, focus: TextNames, known: Sequence[TextNames]) -> Iterator[_Row]:
    """Yield a row for each exact name. In a task, where it merely stands, only environments exclude."""
    keys = {(name.kind, name.value) for name in focus.exact}
    for names in _alternatives(asked.exact):
        is_env, is_asked = names[0].kind == "env", any((name.kind, name.value) in keys for name in names)
        row = [_standing(names, each) for each in known]
        if row.count("exact") > MAX_EXACT:
            row = ["has" if each == "exact" else each for each in row]
        if not (is_asked or is_env):
            row = [None if each == "twin" else each for each in row]
        yield _Row(row, is_asked and not is_env)


def _alternatives(names: Sequence[Name]) -> list[list[Name]]:
    """Group the names that are twins of each other: a question with two of them does not choose."""
    groups: list[list[Name]] = []
    for name in names:
        if not name.is_amount:
            alike = (each for each in groups if each[0].kind == name.kind and are_twins(each[0], name))
            if (group := next(alike, None)) is None:
                groups.append(group := [])
            group.append(name)
    return groups


def _standing(names: Sequence[Name], passage: TextNames) -> Standing | None:
    kind = names[0].kind
    theirs = passage.of_kind(kind)
    same = [name for name in names if any(is_same(name, each) for each in theirs)]
    if same:
        return "exact" if any(name.is_exact for name in same) else "has"
    if any(name.value in passage.words for name in names):
        return None if kind.endswith(" #") else "has"
    if kind == "env" and passage.is_general:
        return None
    is_twin = any(are_twins(name, each) for name in names for each in theirs if not each.is_bound)
    return "twin" if is_twin else None


def _rows_of_words(asked: TextNames, focus: TextNames, known: Sequence[TextNames]) -> Iterator[_Row]:
    """Yield at most one row: for the proper names of a question."""
    words = _proper_names(asked, [each.text for each in known])
    if words:
        is_asked = not focus.words.isdisjoint(words)
        row: list[Standing | None] = ["has" if _missing(words, each) < words else None for each in known]
        yield _Row(_with_twins(row, words, asked, known) if is_asked else row, is_asked)


def _proper_names(asked: TextNames, passages: Sequence[str]) -> frozenset[str]:
    """Return the words that a question, or a passage, writes as names. Prompts often lack capitals."""
    joined = "\n".join(passages)
    labels = {name.kind.removesuffix(" #") for name in asked.exact}
    words = (word for word in asked.words - STOP_WORDS - labels if word.isalpha() and len(word) > 2)
    return frozenset(word for word in words if _is_proper(word, asked, passages, joined))


def _is_proper(word: str, asked: TextNames, passages: Sequence[str], joined: str) -> bool:
    """Return whether some text writes a word as a name, and no passage writes it in lower case only."""
    name, is_first = word.capitalize(), asked.tokens[0].lower() == word
    if name not in joined and word not in asked.proper:
        return False
    if word in joined and any(name not in each and _is_word(word, each) for each in passages):
        return False
    if any(_is_letter(joined, at - 1) or joined[at - 1 : at] == "," for at in _places(f" {name}", joined)):
        return True
    return word in asked.proper and not (is_first and _is_word(name, joined))


def _is_word(word: str, text: str) -> bool:
    return any(not _is_letter(text, at - 1) for at in _places(word, text))


def _places(words: str, text: str) -> Iterator[int]:
    """Yield where words are in a text, not longer ones that begin like the last. No pattern is compiled."""
    at = text.find(words)
    while at >= 0:
        if not _is_letter(text, at + len(words)):
            yield at
        at = text.find(words, at + 1)


def _is_letter(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


def _missing(words: frozenset[str], passage: TextNames) -> frozenset[str]:
    return frozenset(word for word in words if not {word, word.removesuffix("s")} & passage.words)


def _with_twins(
    row: Sequence[Standing | None], words: frozenset[str], asked: TextNames, known: Sequence[TextNames]
) -> list[Standing | None]:
    """Mark the passages with another name in the place of the question's.

    So is one with none of its names, if both say what somebody does or gets, on the same topic. A prompt that
    names several things asks about each, so nothing that has one of its names is a twin.
    """
    is_compound = bool(parts_of(asked.text))
    acting = bool(asked.acting & words)
    lower = {word for each in known for word in each.words if word not in each.proper} if acting else set()
    marked: list[Standing | None] = []
    for standing, passage in zip(row, known, strict=True):
        others = passage.proper.keys() - asked.words
        is_alike = any(
            _is_in_place_of(word, other, asked, passage)
            for word in _missing(words, passage)
            for other in others
        )
        acts = acting and standing is None and bool((passage.acting & others) - lower)
        is_twin = is_alike or (acts and _stems(asked.words - words) & _stems(passage.words))
        marked.append(standing if not is_twin or (is_compound and standing) else "twin")
    return marked


def _is_in_place_of(word: str, other: str, asked: TextNames, passage: TextNames) -> bool:
    """Return whether a passage has another name beside the same word ("Dr N"), or one that looks alike."""
    pairs = zip(asked.proper.get(word, ("", "")), passage.proper[other], strict=True)
    if any(mine == theirs and len(mine) > 1 and mine not in STOP_WORDS for mine, theirs in pairs):
        return True
    alike = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), 0)
    return alike >= MIN_LOOK_ALIKE and max(len(word), len(other)) - alike < MAX_REST


def _stems(words: frozenset[str]) -> set[str]:
    return {word[:4] for word in words if len(word) > 2 and word not in STOP_WORDS}
