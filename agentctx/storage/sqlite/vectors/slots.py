"""Packs the vec0 tables of all spaces while serving, in steps of one short transaction each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.proofs import SlotCount
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart
from agentctx.storage.sqlite.vectors import spaces, vec0_shadow, vec0_slots
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.sqlite.vectors.vec0_slots import SlotBlock

MAX_DEAD: Final = 0.25
"""Packing begins early: when it began at 30 %, the file grew to 1.52 times the size of a fresh one."""
VECTORS_PER_STEP: Final = 64
"""Moving this many takes 20 ms, during which saves wait."""
MAX_FREE_PAGES: Final = 0.1
MIN_FREE_PAGES: Final = 256
"""One megabyte: less is not worth a write."""
PAGES_PER_STEP: Final = 256
LOOK_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class _SparseBlock:
    """A block whose vectors are to be moved, in the table of `space`."""

    space: int
    number: int


@dataclass(frozen=True, slots=True)
class FilePages:
    """The number of pages in the database file, and of free ones."""

    all: int
    free: int

    @property
    def has_too_many_free(self) -> bool:
        return self.free >= MIN_FREE_PAGES and self.free > self.all * MAX_FREE_PAGES


class SqliteSlots(SqlitePart):
    """Packs the vector tables of the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        super().__init__(connections)
        self._emptying: _SparseBlock | None = None
        """A block with vectors left to move, because finding another one reads the place of every vector."""

    async def count(self) -> SlotCount:
        return await self.db.readers.run(_count, timeout_s=LOOK_TIMEOUT_S)

    async def step(self) -> bool:
        return bool(await self._move(MAX_DEAD)) or await self._shrink()

    async def pack(self) -> int:
        moved = 0
        while more := await self._move(0.0):
            moved += more
        while await self._shrink():
            pass
        return moved

    async def _move(self, max_dead: float) -> int:
        """Move some vectors of a sparse block; return 0 if there is none, or it is gone by now."""
        moved = await self._empty(self._emptying) if self._emptying else 0
        if not moved and (sparse := await self._find(max_dead)):
            moved = await self._empty(sparse)
        return moved

    async def _empty(self, sparse: _SparseBlock) -> int:
        moved = await self.db.write(_move_vectors, sparse=sparse)
        self._emptying = sparse if moved == VECTORS_PER_STEP else None
        return moved

    async def _find(self, max_dead: float) -> _SparseBlock | None:
        return await self.db.readers.run(partial(_find, max_dead=max_dead), timeout_s=LOOK_TIMEOUT_S)

    async def _shrink(self) -> bool:
        if not (await self.db.readers.run(file_pages)).has_too_many_free:
            return False
        return await self.db.writer.run(_give_pages_back)


def file_pages(conn: Connection) -> FilePages:
    (pages,) = conn.execute("PRAGMA page_count").fetchone()
    (free,) = conn.execute("PRAGMA freelist_count").fetchone()
    return FilePages(pages, free)


def _count(conn: Connection) -> SlotCount:
    counts = [vec0_slots.count_slots(found) for _, found in _tables(conn)]
    return SlotCount(
        used=sum(count.used for count in counts),
        dead=sum(count.dead for count in counts),
        spare=sum(count.spare for count in counts),
    )


def _find(conn: Connection, max_dead: float) -> _SparseBlock | None:
    for space, found in _tables(conn):
        if vec0_slots.count_slots(found).dead_slot_ratio > max_dead and (block := vec0_slots.sparsest(found)):
            return _SparseBlock(space, block.number)
    return None


def _tables(conn: Connection) -> list[tuple[int, list[SlotBlock]]]:
    """Return the blocks of each space. A damaged table is left alone: it must be rebuilt."""
    found = []
    for index in spaces.prepared(conn):
        dimension = spaces.get(conn, index.space).dimension
        if dimension and not vec0_shadow.shape_faults(conn, index.table, dimension):
            found.append((index.space, vec0_slots.blocks(conn, index.table)))
    return found


def _move_vectors(conn: Connection, sparse: _SparseBlock) -> int:
    index = SpaceIndex(sparse.space)
    if not index.exists(conn):
        return 0  # retired in the meantime
    return vec0_slots.move(conn, index.table, sparse.number, VECTORS_PER_STEP)


def _give_pages_back(conn: Connection) -> bool:
    before = file_pages(conn).free
    # Each fetched row is one page.
    conn.execute(f"PRAGMA incremental_vacuum({PAGES_PER_STEP})").fetchall()
    return file_pages(conn).free < before
