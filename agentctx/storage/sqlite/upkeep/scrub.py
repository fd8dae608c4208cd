"""Verifies all rows against their checksums: in slices in the background, or all at once for the doctor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import ChunkTexts, Piece, stored_cues
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Damage
from agentctx.storage.scrub import ScrubSlice, ScrubStorage, StoredChunk, chunk_damage
from agentctx.storage.sqlite import checksums, sql
from agentctx.storage.sqlite.connections import SqliteConnections
from agentctx.storage.sqlite.entries.rows import (
    ATTRIBUTES,
    CONTENT,
    HEADER,
    LIVE,
    SELECT_ROW,
    check_content,
    check_row,
)
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.steps import Rows

ROWS_PER_SLICE: Final = 500
CHARS_PER_SLICE: Final = 4_000_000
"""A slice is read in well under a second; at one a minute, this is 700,000 rows a day."""
SLICE_TIMEOUT_S: Final = 20.0
_FILLED: Final = "filled"


class SqliteScrub(ScrubStorage):
    """`ScrubStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        super().__init__(connections.clock, connections.faults)
        self.db = connections

    async def _numbers(self) -> dict[str, int]:
        return await self.db.readers.run(_numbers)

    async def _remember(self, numbers: Mapping[str, int]) -> None:
        await self.db.write(_remember, numbers=numbers)

    async def _read_slice(self, after: int) -> ScrubSlice:
        return await self.db.readers.run(partial(check_slice, after=after), timeout_s=SLICE_TIMEOUT_S)

    async def repair(self) -> list[Damage]:
        damage = await self.check_all()
        vectors = {
            (each.space, each.chunk) for each in damage if each.space is not None and each.chunk is not None
        }
        for space in {space for space, _ in vectors}:
            chunks = [chunk for owner, chunk in vectors if owner == space]
            await self.db.write(_recreate_jobs, space=space, chunks=chunks, now=self.db.clock())
        return [each for each in damage if each.space is None]


def check_slice(conn: Connection, after: int, limit: int = ROWS_PER_SLICE) -> ScrubSlice:
    """Check the rows after `after` with their chunks and vectors."""
    rows = []
    chars = 0
    for row in conn.execute(f"{SELECT_ROW} WHERE e.seq > ? ORDER BY e.seq LIMIT ?", (after, limit)):
        rows.append(row)
        chars += len(str(row[CONTENT]))
        if chars > CHARS_PER_SLICE:
            break
    is_whole = len(rows) < limit and chars <= CHARS_PER_SLICE
    return ScrubSlice(None if is_whole else rows[-1][0], tuple(_damage_of(conn, rows)))


def damaged_entries(conn: Connection) -> int:
    """Return how many entries are damaged, in a version or a vector. Requires the present schema."""
    damaged: set[str] = set()
    cursor: int | None = 0
    while cursor is not None:
        found = check_slice(conn, cursor)
        damaged |= {each.entry for each in found.damage}
        cursor = found.last
    return len(damaged)


def fill_missing(conn: Connection) -> None:
    """Add checksums to rows and vectors of an older schema, once; in the caller's transaction."""
    if _FILLED in _numbers(conn):
        return
    for (seq,) in conn.execute("SELECT seq FROM entries WHERE checksum IS NULL").fetchall():
        with suppress(StorageCorrupt):  # the check reports it
            checksums.seal(conn, seq)
    for space in spaces.all_spaces(conn):
        index = SpaceIndex(space.id)
        if index in spaces.prepared(conn) and space.dimension:
            index.seal(conn, space.dimension)
    _remember(conn, {_FILLED: 1})


def _damage_of(conn: Connection, rows: Sequence[Any]) -> Iterator[Damage]:
    live = []
    for row in rows:
        try:
            check_row(row)
            check_content(row)
        except StorageCorrupt:
            yield Damage(_id_of(row), "entry")
            continue
        if row[LIVE]:  # chunks of other versions are orphans, which the census counts
            live.append(row)
    chunks = _chunks_of(conn, [row[0] for row in live])
    held = sql.execute(
        conn, Rows("SELECT entry FROM quarantine WHERE entry IN ?ids", ([row[1] for row in live],))
    )
    quarantined = {row[0] for row in held}
    for row in live:
        if chunks[row[0]] or row[1] not in quarantined:
            texts = ChunkTexts(row[CONTENT], stored_cues(row[ATTRIBUTES]), "", row[HEADER])
            yield from chunk_damage(_id_of(row), texts, chunks[row[0]])
    owners = {chunk.id: _id_of(row) for row in live for chunk in chunks[row[0]]}
    for index in spaces.prepared(conn):
        for chunk_id in sorted(index.damaged(conn, list(owners))):
            yield Damage(owners[chunk_id], "vector", index.space, chunk_id)


def _id_of(row: Any) -> str:
    return str(row[1])[:64]


def _chunks_of(conn: Connection, seqs: Sequence[int]) -> dict[int, list[StoredChunk]]:
    """Return the chunks by entry, in order."""
    found: dict[int, list[StoredChunk]] = {seq: [] for seq in seqs}
    rows = conn.execute(
        """SELECT chunks.entry, chunks.id, ordinal, hash, chunking, cue, start_at, end_at
           FROM json_each(?) AS wanted CROSS JOIN chunks ON chunks.entry = wanted.value
           ORDER BY chunks.entry, ordinal""",
        (json.dumps(list(seqs)),),
    )
    for entry, chunk, ordinal, digest, chunking, *piece in rows:
        if entry in found:  # a damaged index leads to chunks of others
            found[entry].append(StoredChunk(chunk, ordinal, Piece(*piece), digest, chunking))
    return found


def _recreate_jobs(conn: Connection, space: int, chunks: list[int], now: int) -> None:
    SpaceIndex(space).delete(conn, chunks)
    if space in spaces.enabled_ids(conn):
        spaces.create_jobs(conn, space, chunks, now=now)


def _numbers(conn: Connection) -> dict[str, int]:
    return dict(conn.execute("SELECT name, value FROM scrub"))


def _remember(conn: Connection, numbers: Mapping[str, int]) -> None:
    conn.executemany(
        "INSERT INTO scrub (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        numbers.items(),
    )
