"""Reads postings: all of the index in slices, or those of some chunks. Read transactions only."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from agentctx.storage.bm25 import Numbers
from agentctx.storage.file.driver import FIRST_ID, Connection
from agentctx.storage.sqlite.search import fts
from agentctx.storage.sqlite.search.postings import IndexedChunk, PostingsRun, WordPostings

SLICE_S: Final = 0.05
"""How long a slice takes; other reads wait meanwhile."""
CHUNKS_PER_SLICE: Final = 2_000

_CHUNKS: Final = """SELECT docs.id, docs.sz, entries.namespace, entries.collection, entries.session
    FROM {source} LEFT JOIN chunks ON chunks.id = docs.id LEFT JOIN entries ON entries.seq = chunks.entry"""
_AMONG: Final = _CHUNKS.format(
    source="json_each(?) wanted CROSS JOIN chunk_fts_docsize docs ON docs.id = wanted.value"
)
_AFTER: Final = (
    f"{_CHUNKS.format(source='chunk_fts_docsize docs')} WHERE docs.id > ? ORDER BY docs.id LIMIT ?"
)
_POSTINGS: Final = """SELECT term, group_concat(doc) FROM temp.chunk_occurrences
    WHERE term > ? AND col <> 'scope' GROUP BY term"""
_POOLED: Final = "SELECT doc, term FROM temp.pool_occurrences"


def indexed_chunks(conn: Connection, chunks: Sequence[int]) -> list[tuple[IndexedChunk, Counter[int]]] | None:
    """Return those of the chunks that are in the index, each with its words and their counts.

    None: the text of one is damaged, so that its words are only in the index.
    """
    found = [_indexed(*row) for row in conn.execute(_AMONG, (json.dumps(list(chunks)),))]
    words: defaultdict[int, Counter[int]] = defaultdict(Counter)
    fts.fill_pool(conn, [chunk.chunk for chunk, _ in found])
    for chunk, word in conn.execute(_POOLED):
        words[chunk][hash(word)] += 1
    if any(words[chunk.chunk].total() != searched for chunk, searched in found):
        return None
    return [(chunk, words[chunk.chunk]) for chunk, _ in found]


def _indexed(chunk: int, sizes: bytes, namespace: str | None, *names: str) -> tuple[IndexedChunk, int]:
    """Return a chunk, and how many tokens it has in the columns that questions search."""
    *searched, scope = fts.sizes_of(sizes)
    found = None if namespace is None else (namespace, names[0], names[1])
    return IndexedChunk(chunk, sum(searched) + scope, found), sum(searched)


class PostingsLoading:
    """Collects the postings of an index, slice by slice, each in a snapshot of its own.

    Chunks whose words change meanwhile must be added again by the caller.
    """

    def __init__(self) -> None:
        self._chunks: list[Numbers] = []
        self._columns: list[Any] = []
        self._names: dict[str, int] = {}
        self._runs: list[PostingsRun] = []
        self._last_chunk, self._last_word = FIRST_ID, ""
        self._ids: Numbers | None = None

    def read_slice(self, conn: Connection) -> bool:
        """Read some more; return whether these were the last."""
        if self._ids is None:
            if self._read_chunks(conn):
                return False
            self._ids = np.concatenate([np.empty(0, np.int64), *self._chunks])
        return self._read_words(conn)

    def _read_chunks(self, conn: Connection) -> bool:
        rows = conn.execute(_AFTER, (self._last_chunk, CHUNKS_PER_SLICE)).fetchall()
        found = [_indexed(*row)[0] for row in rows]
        if found:
            columns = [(each.tokens, *self._codes(each.scope)) for each in found]
            self._chunks.append(np.array([each.chunk for each in found], np.int64))
            self._columns.append(np.array(columns, np.int32).T)
            self._last_chunk = found[-1].chunk
        return bool(found)

    def _codes(self, scope: Iterable[str] | None) -> Iterable[int]:
        return (
            [-1] * 3 if scope is None else [self._names.setdefault(name, len(self._names)) for name in scope]
        )

    def _read_words(self, conn: Connection) -> bool:
        words, joined, until = [], [], time.monotonic() + SLICE_S
        is_last = True
        for word, chunks in conn.execute(_POSTINGS, (self._last_word,)):
            words.append(word)
            joined.append(chunks)
            if time.monotonic() > until:
                is_last = False
                break
        if words:
            self._last_word = words[-1]
            self._runs.append(self._run(words, joined))
        return is_last

    def _run(self, words: Sequence[str], joined: Sequence[str]) -> PostingsRun:
        occurrences = np.array([chunks.count(",") + 1 for chunks in joined])
        numbers = np.repeat(np.arange(len(words)), occurrences)
        chunks = fts.numbers(",".join(joined))
        firsts = np.flatnonzero(np.append(True, (chunks[1:] != chunks[:-1]) | (numbers[1:] != numbers[:-1])))
        counts = np.minimum(np.diff(np.append(firsts, len(chunks))), 255).astype(np.uint8)
        chunks, numbers = chunks[firsts], numbers[firsts]
        assert self._ids is not None  # noqa: S101 - for the type checker
        slots = np.searchsorted(self._ids, chunks)
        known = slots < len(self._ids)
        known[known] = self._ids[slots[known]] == chunks[known]
        lengths = np.bincount(numbers[known], minlength=len(words))
        hashes = np.array([hash(word) for word in words], np.int64)
        return PostingsRun(hashes, lengths, (slots[known] + 1).astype(np.int32), counts[known])

    def loaded(self) -> WordPostings:
        """Return what was read."""
        columns = np.concatenate([np.empty((4, 0), np.int32), *self._columns], axis=1)
        ids = self._ids if self._ids is not None else np.empty(0, np.int64)
        return WordPostings(self._names, ids, columns, self._runs)
