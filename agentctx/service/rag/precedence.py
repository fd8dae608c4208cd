"""Order what is injected: purpose before captured turns, newer versions before older ones. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.versions import FactText
from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.records import TRUST_ORDER, Entry
from agentctx.storage.search import ResolvedChunk


def newest_versions(
    candidates: Sequence[Candidate],
    among: Sequence[Candidate],
    found: Mapping[int, ResolvedChunk],
    question: str = "",
) -> dict[int, Candidate]:
    """Map the chunk of each candidate with an older version of a fact to the newest version in `among`.

    A newer version is in the same namespace, its trust is not lower, and it has every word of the question
    that the older one has: otherwise it may be about something else.
    """
    if not candidates:
        return {}
    every = {each.chunk: each for each in [*candidates, *among]}
    texts = [[found[chunk].content] for chunk in every]
    words = QuestionWords(question).matches_in_each(texts)
    saved = {
        chunk: _SavedText(found[chunk].entry, FactText(text), matched)
        for chunk, [text], matched in zip(every, texts, words, strict=True)
    }
    newest: dict[int, Candidate] = {}
    for older in candidates:
        best = saved[older.chunk]
        for other in among:
            if saved[other.chunk].replaces(saved[older.chunk]) and saved[other.chunk].is_later(best):
                newest[older.chunk], best = other, saved[other.chunk]
    return newest


def with_newest(
    admitted: Sequence[Candidate], near: Sequence[Candidate], newest: Mapping[int, Candidate]
) -> list[Candidate]:
    """Return those admitted and their newest versions, whatever their relevance, in the order of `near`."""
    chunks = {each.chunk for each in [*admitted, *newest.values()]}
    return [each for each in near if each.chunk in chunks]


def arranged(
    candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk], question: str = ""
) -> list[Candidate]:
    """Return the candidates with those saved on purpose in the places before captured ones, and each older
    version behind the newest. Documents and what is imported keep their places.
    """
    entries = {each.chunk: found[each.chunk].entry for each in candidates}
    captured = [each for each in candidates if entries[each.chunk].origin == "capture"]
    on_purpose = [each for each in candidates if _is_on_purpose(entries[each.chunk])]
    ordered, moved = iter([*on_purpose, *captured]), {*on_purpose, *captured}
    placed = [next(ordered) if each in moved else each for each in candidates]
    newest = newest_versions(placed, placed, found, question)
    result: dict[int, Candidate] = {}
    for each in placed:
        first = newest.get(each.chunk, each)
        result.setdefault(first.chunk, first)
        result.setdefault(each.chunk, each)
    return list(result.values())


class _SavedText(NamedTuple):
    """The text of an entry, and the words of the question that it has."""

    entry: Entry
    statement: FactText
    words: frozenset[str]

    def replaces(self, older: _SavedText) -> bool:
        return (
            self.words >= older.words
            and self.entry.id != older.entry.id
            and self.entry.namespace == older.entry.namespace
            and TRUST_ORDER.index(self.entry.trust) >= TRUST_ORDER.index(older.entry.trust)
            and self.statement.updates(older.statement)
        )

    def is_later(self, other: _SavedText) -> bool:
        """Return whether this was stated later: by the dates in both texts, else by when they were saved."""
        dates = self.statement.date, other.statement.date
        if dates[0] and dates[1] and dates[0] != dates[1]:
            return dates[0] > dates[1]
        return self.entry.updated > other.entry.updated


def _is_on_purpose(entry: Entry) -> bool:
    return entry.trust != "external" and entry.origin != "capture"
