"""Verify stored data against its hashes: in slices in the background, on one daemon, or all for the doctor.

Contents and chunk texts have our own hashes; the pages of rows and vectors have the server's checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agentctx.chunking.entry import CHUNKING_VERSION
from agentctx.storage.chunk_texts import ChunkTexts, Piece, content_hash, is_covered, stored_cues
from agentctx.storage.postgresql.connections import CHECK_TIMEOUT_S, PostgresqlPart
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.upkeep import leases
from agentctx.storage.records import Damage, ScrubState

TASK: Final = "scrub"
ROWS_PER_SLICE: Final = 500
PASS_EVERY_MS: Final = 86_400_000
_CURSOR, _BEGAN, _FINISHED, _DAMAGED, _RESULT = (
    f"scrub {name}" for name in ("cursor", "began", "finished", "damaged", "result")
)

_ENTRIES: Final = """SELECT seq, id, live, content, content_hash, attributes, header,
      EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = entries.id) AS is_held
    FROM entries WHERE seq > $1 ORDER BY seq LIMIT $2"""
_CHUNKS: Final = """SELECT entry, ordinal, hash, chunking, cue, start_at, end_at FROM chunks
    WHERE entry = ANY($1::bigint[]) ORDER BY entry, ordinal"""


@dataclass(frozen=True, slots=True)
class _Slice:
    """`last` is the last row of the slice; None at the end."""

    last: int | None
    damage: tuple[Damage, ...]


class PostgresqlScrub(PostgresqlPart):
    """`ScrubStorage` on a PostgreSQL server."""

    @property
    def failures(self) -> int:
        return self.db.faults.count

    async def step(self) -> bool:
        """Check a slice; see the protocol. Also returns False while another daemon scrubs."""
        if not await leases.take(self.db, TASK):
            return False
        now = self.db.clock()
        state = await self.db.read(_numbers)
        cursor = state.get(_CURSOR, 0)
        # After the clock was set back, a pass must not be delayed further.
        if cursor == 0 and 0 <= now - state.get(_BEGAN, 0) < PASS_EVERY_MS:
            return False
        began = state.get(_BEGAN, now) if cursor else now
        before = state.get(_DAMAGED, 0) if cursor else 0
        found = await self._check_slice(cursor)
        after = {_BEGAN: began, _DAMAGED: before + len(found.damage), _CURSOR: found.last or 0}
        if found.last is None:
            after |= {_FINISHED: now, _RESULT: after[_DAMAGED]}
        await self.db.write(partial(_remember, numbers=after))
        return found.last is not None

    async def state(self) -> ScrubState:
        numbers = await self.db.read(_numbers)
        return ScrubState(finished=numbers.get(_FINISHED), damaged=numbers.get(_RESULT, 0))

    async def check_all(self) -> list[Damage]:
        damage: list[Damage] = []
        cursor: int | None = 0
        while cursor is not None:
            found = await self._check_slice(cursor)
            damage += found.damage
            cursor = found.last
        return damage

    async def repair(self) -> list[Damage]:
        """Repair nothing: only vectors could be rebuilt, and they have no checksums of ours."""
        return await self.check_all()

    async def _check_slice(self, cursor: int) -> _Slice:
        found = await self.db.read(partial(_check_slice, after=cursor), CHECK_TIMEOUT_S)
        for damage in found.damage:
            self.db.faults.record(damage.what, damage.entry)
        return found


async def _check_slice(conn: Connection, after: int) -> _Slice:
    """Check the rows after `after`, with their chunks."""
    rows = await conn.fetch(_ENTRIES, after, ROWS_PER_SLICE)
    chunks: dict[int, list[Any]] = {row["seq"]: [] for row in rows}
    for chunk in await conn.fetch(_CHUNKS, list(chunks)):
        chunks[chunk["entry"]].append(chunk)
    damage = tuple(each for row in rows for each in _damage_of(row, chunks[row["seq"]]))
    return _Slice(rows[-1]["seq"] if len(rows) == ROWS_PER_SLICE else None, damage)


def _damage_of(row: Any, chunks: Sequence[Any]) -> Iterator[Damage]:
    if content_hash(row["content"]) != row["content_hash"]:
        yield Damage(row["id"], "entry")
    elif row["live"] and not (row["is_held"] and not chunks):  # chunks of other versions are orphaned
        texts = ChunkTexts(row["content"], stored_cues(row["attributes"]), "", row["header"])
        pieces = [Piece(chunk["cue"], chunk["start_at"], chunk["end_at"]) for chunk in chunks]
        if not chunks or not is_covered(texts, pieces):
            yield Damage(row["id"], "chunk")
        for place, (chunk, piece) in enumerate(zip(chunks, pieces, strict=True)):
            is_known = chunk["ordinal"] == place and 1 <= chunk["chunking"] <= CHUNKING_VERSION
            if not is_known or not texts.is_sound(piece, chunk["hash"]):
                yield Damage(row["id"], "chunk")


async def _numbers(conn: Connection) -> dict[str, int]:
    rows = await conn.fetch("SELECT name, value FROM progress WHERE name LIKE 'scrub %'")
    return {row[0]: row[1] for row in rows}


async def _remember(conn: Connection, numbers: dict[str, int]) -> None:
    await conn.executemany(
        """INSERT INTO progress (name, value) VALUES ($1, $2)
           ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
        list(numbers.items()),
    )
