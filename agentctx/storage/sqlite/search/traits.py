"""What ranking takes from passages, read from columns; texts are read only where a row lacks them.

Read transactions only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.storage.chunk_texts import stored_cues
from agentctx.storage.file.driver import Connection
from agentctx.storage.passage_traits import PassageTraits, WordFinder, traits_of
from agentctx.storage.sqlite.search.filters import Condition

_COLUMNS: Final = """chunks.id, chunks.entry, e.id, chunks.words,
    coalesce(nullif(e.agent, ''), chunks.speaker, ''), chunks.asks, chunks.times,
    chunks.start_at = 0 AND instr(e.attributes, '"cues":') > 0"""
_OF_CHUNKS: Final = f"""SELECT {_COLUMNS}
    FROM json_each(?) wanted CROSS JOIN chunks ON chunks.id = wanted.value AND chunks.cue = 0
    CROSS JOIN entries e ON e.seq = chunks.entry"""  # noqa: S608 - constants
# The pieces of a text have the first ordinals, its cues those after them.
_OF_ENTRIES: Final = f"""SELECT {_COLUMNS}
    FROM json_each(?) wanted CROSS JOIN chunks ON chunks.entry = wanted.value AND chunks.ordinal = 0
    CROSS JOIN entries e ON e.seq = wanted.value
    WHERE chunks.cue = 0
      AND NOT EXISTS (SELECT 1 FROM chunks WHERE entry = e.seq AND ordinal = 1 AND cue = 0)"""  # noqa: S608 - constants
# Each text takes a call to decode it, so what most rows lack is NULL.
_TEXTS: Final = """SELECT chunks.id, chunks.start_at, chunks.end_at, e.content, nullif(e.agent, ''),
      nullif(e.labels, ''),
      CASE WHEN chunks.start_at = 0 AND instr(e.attributes, '"cues":') THEN e.attributes END
    FROM json_each(?) wanted CROSS JOIN chunks ON chunks.id = wanted.value
    CROSS JOIN entries e ON e.seq = chunks.entry"""
_TEXT_OR_NULL: Final = {str, type(None)}


FindWords: TypeAlias = Callable[[Sequence[int]], dict[int, frozenset[str]]]
"""Returns the words of the question in the chunks, as far as memory has them."""


class TraitsRow(NamedTuple):
    """A row of `_COLUMNS`; NULL, or anything if it is damaged, stands for traits that are not known."""

    chunk: int
    seq: int
    entry: str
    words: Any
    speaker: str
    asks: Any
    times: Any
    has_cues: Any

    @property
    def is_complete(self) -> bool:
        """Whether the row has the traits of its text."""
        return type(self.words) is type(self.asks) is type(self.times) is int


Rows: TypeAlias = dict[int, TraitsRow]
"""Rows by chunk."""


def of_chunks(conn: Connection, chunks: Sequence[int], condition: Condition) -> Rows:
    """Return the rows of the chunks that meet the condition."""
    return _rows(
        conn.execute(f"{_OF_CHUNKS} WHERE {condition.sql}", (json.dumps(list(chunks)), *condition.parameters))
    )


def of_entries(conn: Connection, seqs: Iterable[int]) -> Rows:
    """Return the rows of entries with exactly one chunk."""
    return _rows(conn.execute(_OF_ENTRIES, (json.dumps(list(seqs)),)))


def _rows(found: Iterable[Any]) -> Rows:
    rows = (TraitsRow(*row) for row in found)
    return {row.chunk: row for row in rows if type(row.entry) is type(row.speaker) is str}


def traits(
    conn: Connection, rows: Mapping[int, TraitsRow], words: WordFinder, in_memory: FindWords
) -> dict[int, PassageTraits]:
    """Return the traits of passages; those without a readable text are left out."""
    found = in_memory([chunk for chunk, row in rows.items() if row.is_complete and not row.has_cues])
    texts = _texts(conn, [chunk for chunk in rows if chunk not in found])
    found |= zip(texts, words.matches_in_each(list(texts.values())), strict=True)
    return {
        chunk: PassageTraits(*row[2:-1], found[chunk])
        if row.is_complete
        else _of_text(row, texts[chunk][0], found[chunk])
        for chunk, row in rows.items()
        if chunk in found
    }


def _of_text(row: TraitsRow, text: str, found: frozenset[str]) -> PassageTraits:
    words, speaker, asks, times = traits_of(text)
    return PassageTraits(row.entry, words, row.speaker or speaker, asks, times, found)


def _texts(conn: Connection, chunks: Sequence[int]) -> dict[int, list[str]]:
    """Return the text of each chunk, then its agent, its labels and its cues."""
    if not chunks:
        return {}
    return {
        chunk: [
            content[start:end],
            agent or "",
            labels or "",
            *(stored_cues(attributes) if attributes else ()),
        ]
        for chunk, start, end, content, agent, labels, attributes in conn.execute(
            _TEXTS, (json.dumps(chunks),)
        )
        if type(content) is str and {type(agent), type(labels), type(attributes)} <= _TEXT_OR_NULL
    }
