"""Verifies all rows against their checksums: in slices in the background, or all at once for the doctor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from agentctx.chunking.entry import CHUNKING_VERSION
from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import Connection
from agentctx.storage.chunk_texts import ChunkTexts, Piece, is_covered, stored_cues
from agentctx.storage.records import Damage, ScrubState
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.connections import SqlitePart
from agentctx.storage.sqlite.entries.rows import (
    ATTRIBUTES,
    CONTENT,
    HEADER,
    LIVE,
    SELECT_ROW,
    check_content,
    check_row,
)
from agentctx.storage.sqlite.trust import quarantine
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex

ROWS_PER_SLICE: Final = 500
CHARS_PER_SLICE: Final = 4_000_000
"""A slice is read in well under a second; at one a minute, this is 700,000 rows a day."""
PASS_EVERY_MS: Final = 86_400_000
SLICE_TIMEOUT_S: Final = 20.0
_FILLED: Final = "filled"
_CURSOR, _BEGAN, _FINISHED, _DAMAGED = "cursor", "began", "finished", "damaged"


@dataclass(frozen=True, slots=True)
class _Slice:
    """The damage in a slice; `last` is its last row, or None at the end of the table."""

    last: int | None
    damage: tuple[Damage, ...]


class _Chunk(NamedTuple):
    """A row of `chunks`."""

    id: int
    ordinal: int
    piece: Piece
    hash: bytes
    chunking: int


class SqliteScrub(SqlitePart):
    """`ScrubStorage` on the SQLite file."""

    @property
    def failures(self) -> int:
        return self.db.faults.count

    async def step(self) -> bool:
        now = self.db.clock()
        state = await self.db.readers.run(_numbers)
        cursor = state.get(_CURSOR, 0)
        # A clock that was set back must not delay a pass any longer.
        if cursor == 0 and 0 <= now - state.get(_BEGAN, 0) < PASS_EVERY_MS:
            return False
        began = state.get(_BEGAN, now) if cursor else now
        before = state.get(_DAMAGED, 0) if cursor else 0
        found = await self._check_slice(cursor)
        after = {_BEGAN: began, _DAMAGED: before + len(found.damage), _CURSOR: found.last or 0}
        if found.last is None:
            after |= {_FINISHED: now, "result": after[_DAMAGED]}
        await self.db.write(_remember, numbers=after)
        return found.last is not None

    async def state(self) -> ScrubState:
        numbers = await self.db.readers.run(_numbers)
        return ScrubState(finished=numbers.get(_FINISHED), damaged=numbers.get("result", 0))

    async def check_all(self) -> list[Damage]:
        damage: list[Damage] = []
        cursor: int | None = 0
        while cursor is not None:
            found = await self._check_slice(cursor)
            damage += found.damage
            cursor = found.last
        return damage

    async def repair(self) -> list[Damage]:
        damage = await self.check_all()
        vectors = {
            (each.space, each.chunk) for each in damage if each.space is not None and each.chunk is not None
        }
        for space in {space for space, _ in vectors}:
            chunks = [chunk for owner, chunk in vectors if owner == space]
            await self.db.write(_recreate_jobs, space=space, chunks=chunks, now=self.db.clock())
        return [each for each in damage if each.space is None]

    async def _check_slice(self, cursor: int) -> _Slice:
        found = await self.db.readers.run(partial(check_slice, after=cursor), timeout_s=SLICE_TIMEOUT_S)
        for damage in found.damage:
            self.db.faults.record(damage.what, damage.entry)
        return found


def check_slice(conn: Connection, after: int, limit: int = ROWS_PER_SLICE) -> _Slice:
    """Check the rows after `after` with their chunks and vectors."""
    rows = []
    chars = 0
    for row in conn.execute(f"{SELECT_ROW} WHERE e.seq > ? ORDER BY e.seq LIMIT ?", (after, limit)):
        rows.append(row)
        chars += len(str(row[CONTENT]))
        if chars > CHARS_PER_SLICE:
            break
    is_whole = len(rows) < limit and chars <= CHARS_PER_SLICE
    return _Slice(None if is_whole else rows[-1][0], tuple(_damage_of(conn, rows)))


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
        checksums.seal(conn, seq)
    for space in spaces.all_spaces(conn):
        index = SpaceIndex(space.id)
        if index in spaces.prepared(conn) and space.dimension:
            index.seal(conn, space.dimension)
    mark_filled(conn)


def mark_filled(conn: Connection) -> None:
    """Mark all checksums as written, so that none are added later."""
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
    quarantined = quarantine.among(conn, [row[1] for row in live])
    for row in live:
        yield from _chunk_damage(row, chunks[row[0]], may_lack_chunks=row[1] in quarantined)
    owners = {chunk.id: _id_of(row) for row in live for chunk in chunks[row[0]]}
    for index in spaces.prepared(conn):
        for chunk_id in sorted(index.damaged(conn, list(owners))):
            yield Damage(owners[chunk_id], "vector", index.space, chunk_id)


def _id_of(row: Any) -> str:
    return str(row[1])[:64]


def _chunks_of(conn: Connection, seqs: Sequence[int]) -> dict[int, list[_Chunk]]:
    """Return the chunks by entry, in order."""
    found: dict[int, list[_Chunk]] = {seq: [] for seq in seqs}
    rows = conn.execute(
        """SELECT chunks.entry, chunks.id, ordinal, hash, chunking, cue, start_at, end_at
           FROM json_each(?) AS wanted CROSS JOIN chunks ON chunks.entry = wanted.value
           ORDER BY chunks.entry, ordinal""",
        (json.dumps(list(seqs)),),
    )
    for entry, chunk, ordinal, digest, chunking, *piece in rows:
        found[entry].append(_Chunk(chunk, ordinal, Piece(*piece), digest, chunking))
    return found


def _chunk_damage(row: Any, chunks: Sequence[_Chunk], *, may_lack_chunks: bool) -> Iterator[Damage]:
    if not chunks and may_lack_chunks:
        return
    texts = ChunkTexts(row[CONTENT], stored_cues(row[ATTRIBUTES]), "", row[HEADER], "")
    if not chunks or not is_covered(texts, [chunk.piece for chunk in chunks]):
        yield Damage(_id_of(row), "chunk")
    for place, chunk in enumerate(chunks):
        is_sound = texts.is_sound(chunk.piece, chunk.hash)
        if chunk.ordinal != place or not is_sound or not 1 <= chunk.chunking <= CHUNKING_VERSION:
            yield Damage(_id_of(row), "chunk")


def _recreate_jobs(conn: Connection, space: int, chunks: list[int], now: int) -> None:
    SpaceIndex(space).delete(conn, chunks)
    if space in spaces.enabled_ids(conn):
        spaces.create_jobs(conn, space, chunks, now=now)


def _numbers(conn: Connection) -> dict[str, int]:
    return dict(conn.execute("SELECT name, value FROM scrub"))


def _remember(conn: Connection, numbers: dict[str, int]) -> None:
    conn.executemany(
        "INSERT INTO scrub (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        numbers.items(),
    )
