"""Rebuilds the word index beside the one in service, in steps, and swaps the two at the end.

Each function is one step inside the caller's transaction. If a rebuild is interrupted, the old index stays in
service, `word_index.NEXT` follows every save and forget, and the rebuild resumes with `add_words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from agentctx.storage.chunk_texts import Piece
from agentctx.storage.file.driver import FIRST_ID, LAST_ID, Connection
from agentctx.storage.sqlite.entries.rows import texts_of_version
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.upkeep import repair
from agentctx.storage.sqlite.upkeep.repair import LIVE_CHUNKS

CHUNKS_PER_STEP: Final = 250
"""Writing the words of this many chunks takes about 50 ms, during which saves wait."""
UNREADABLE: Final = (
    "words: the index of words is damaged, keyword search misses entries, run `agentctx doctor --fix`"
)

_WITHOUT_WORDS: Final = f"""
SELECT chunks.entry, chunks.id, cue, start_at, end_at, terms, chunks.hash FROM {LIVE_CHUNKS}
WHERE chunks.id > ? AND chunks.id NOT IN (SELECT id FROM {word_index.NEXT}_docsize)
ORDER BY chunks.id LIMIT ?
"""  # noqa: S608 - constants


class WordStep(NamedTuple):
    """The result of `add_words`: the last chunk, how many were examined, and the ids of damaged entries."""

    last: int
    looked_at: int
    damaged: tuple[str, ...] = ()


class WordCount(NamedTuple):
    """The number of chunks, how many have words in the index in service, and whether it is being rebuilt."""

    chunks: int
    indexed: int
    is_rebuilt: bool

    @property
    def missing(self) -> int:
        return max(0, self.chunks - self.indexed)


def begin(conn: Connection) -> None:
    """Start a rebuild from nothing, whatever an earlier one has left. The index in service is not touched."""
    word_index.drop(conn, word_index.NEXT)
    word_index.create(conn, word_index.NEXT)


def add_words(conn: Connection, after: int, limit: int = CHUNKS_PER_STEP, *, now: int) -> WordStep:
    """Write the words of up to `limit` live chunks above `after` that have none.

    Entries with a damaged chunk are cut again; a damaged entry loses its chunks, since no answer may show it.
    """
    rows = conn.execute(_WITHOUT_WORDS, (after, limit)).fetchall()
    damaged = []
    for seq, chunks in groupby(rows, key=itemgetter(0)):
        if not _add_chunks(conn, seq, list(chunks)):
            damaged.append(repair.replace_chunks(conn, seq, now=now))
    named = tuple(entry for entry in damaged if entry is not None)
    return WordStep(rows[-1][1] if rows else after, len(rows), named)


def _add_chunks(conn: Connection, seq: int, chunks: Sequence[tuple[Any, ...]]) -> bool:
    """Add chunks of one entry; if one of them is damaged, add nothing and return False."""
    texts = texts_of_version(conn, seq)
    pieces = [(chunk, Piece(*piece), terms, digest) for _, chunk, *piece, terms, digest in chunks]
    if not all(texts.is_sound(piece, digest) for _, piece, _, digest in pieces):
        return False
    words = [texts.words(chunk, piece, terms) for chunk, piece, terms, _ in pieces]
    word_index.insert_into(conn, word_index.NEXT, words)
    return True


def finish(conn: Connection, *, now: int) -> int:
    """Put the new index into service after adding the remaining chunks; return how many it has."""
    after = FIRST_ID
    while (step := add_words(conn, after, now=now)).looked_at:
        after = step.last
    word_index.replace_by_next(conn)
    return len(word_index.indexed(conn, FIRST_ID, LAST_ID))


def count(conn: Connection) -> WordCount:
    """Count chunks and words. Reads only ids: some milliseconds for 100,000 chunks."""
    (chunks,) = conn.execute("SELECT COUNT(*) FROM chunks").fetchone()
    indexed = 0
    if not word_index.missing_tables(conn):
        (indexed,) = conn.execute(f"SELECT COUNT(*) FROM {word_index.TABLE}_docsize").fetchone()  # noqa: S608 - constant
    return WordCount(chunks, indexed, word_index.is_rebuilt(conn))


def shortfall(counted: WordCount) -> str | None:
    """Describe what keyword search may miss; None if the index is complete."""
    if counted.is_rebuilt:
        return "words: the index of words is being rebuilt, keyword search may miss entries until it is done"
    if counted.missing:
        return (
            f"words: keyword search misses {counted.missing} of {counted.chunks} chunks, "
            "run `agentctx doctor --fix`"
        )
    return None
