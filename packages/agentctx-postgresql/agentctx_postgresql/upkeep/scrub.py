"""Verify stored data against its hashes: in slices in the background, on one daemon, or all for the doctor.

Contents and chunk texts have our own hashes; the pages of rows and vectors have the server's checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agentctx.storage.chunk_texts import ChunkTexts, Piece, content_hash, stored_cues
from agentctx.storage.records import Damage
from agentctx.storage.scrub import ScrubSlice, ScrubStorage, StoredChunk, chunk_damage
from agentctx_postgresql.connections import CHECK_TIMEOUT_S, PostgresqlConnections
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.upkeep import leases

TASK: Final = "scrub"
ROWS_PER_SLICE: Final = 500
_ENTRIES: Final = """SELECT seq, id, live, content, content_hash, attributes, header,
      EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = entries.id) AS is_held
    FROM entries WHERE seq > $1 ORDER BY seq LIMIT $2"""
_CHUNKS: Final = """SELECT entry, id, ordinal, hash, chunking, cue, start_at, end_at FROM chunks
    WHERE entry = ANY($1::bigint[]) ORDER BY entry, ordinal"""
_NUMBERS: Final = "SELECT substr(name, 7), value FROM progress WHERE name LIKE 'scrub %'"
_REMEMBER: Final = """INSERT INTO progress (name, value) VALUES ('scrub ' || $1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


class PostgresqlScrub(ScrubStorage):
    """`ScrubStorage` on a PostgreSQL server."""

    def __init__(self, connections: PostgresqlConnections) -> None:
        super().__init__(connections.clock, connections.faults)
        self.db = connections

    async def step(self) -> bool:
        """Check a slice, like the base. Also returns False while another daemon scrubs."""
        return await leases.take(self.db, TASK) and await super().step()

    async def repair(self) -> list[Damage]:
        """Repair nothing: only vectors could be rebuilt, and they have no checksums of ours."""
        return await self.check_all()

    async def _numbers(self) -> dict[str, int]:
        return dict(await self.db.read(lambda conn: conn.fetch(_NUMBERS)))

    async def _remember(self, numbers: Mapping[str, int]) -> None:
        await self.db.write(lambda conn: conn.executemany(_REMEMBER, list(numbers.items())))

    async def _read_slice(self, after: int) -> ScrubSlice:
        return await self.db.read(partial(_check_slice, after=after), CHECK_TIMEOUT_S)


async def _check_slice(conn: Connection, after: int) -> ScrubSlice:
    """Check the rows after `after`, with their chunks."""
    rows = await conn.fetch(_ENTRIES, after, ROWS_PER_SLICE)
    chunks: dict[int, list[StoredChunk]] = {row["seq"]: [] for row in rows}
    for entry, chunk, ordinal, digest, chunking, *piece in await conn.fetch(_CHUNKS, list(chunks)):
        chunks[entry].append(StoredChunk(chunk, ordinal, Piece(*piece), digest, chunking))
    damage = tuple(each for row in rows for each in _damage_of(row, chunks[row["seq"]]))
    return ScrubSlice(rows[-1]["seq"] if len(rows) == ROWS_PER_SLICE else None, damage)


def _damage_of(row: Any, chunks: Sequence[StoredChunk]) -> Iterator[Damage]:
    if content_hash(row["content"]) != row["content_hash"]:
        yield Damage(row["id"], "entry")
    elif row["live"] and not (row["is_held"] and not chunks):  # chunks of other versions are orphaned
        texts = ChunkTexts(row["content"], stored_cues(row["attributes"]), "", row["header"])
        yield from chunk_damage(row["id"], texts, chunks)
