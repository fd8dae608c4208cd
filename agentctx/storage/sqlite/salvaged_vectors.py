"""Copying the vectors of a damaged database into a new one, those that are what was stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agentctx.sqlite.driver import Connection, Error
from agentctx.sqlite.readable import is_damage
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite import spaces
from agentctx.storage.sqlite.space_index import SpaceIndex
from agentctx.vector_stores import vec0_shadow
from agentctx.vector_stores.vec0 import VectorRow

CHUNKS_A_STEP: Final = 500

_WITHOUT_JOB: Final = """
SELECT id FROM chunks WHERE id NOT IN (SELECT chunk FROM jobs WHERE space = ?) ORDER BY id
"""


def copy_vectors(old: Connection, new: Connection) -> None:
    """Make the tables of all spaces, and fill them with the sound vectors of chunks that owe none."""
    for space in spaces.all_spaces(new):
        if space.dimension is None or space.state is SpaceState.RETIRED:
            continue
        index = SpaceIndex(space.id)
        index.create(new, space.dimension)
        chunks = [row[0] for row in new.execute(_WITHOUT_JOB, (space.id,))]
        for vectors in _sound(old, index, space.dimension, chunks):
            index.insert(new, vectors)


def _sound(
    old: Connection, index: SpaceIndex, dimension: int, chunks: Sequence[int]
) -> Iterator[list[VectorRow]]:
    """In steps; none from a table with a damaged page, which vec0 would trust."""
    try:
        if not _is_readable(old, index, dimension):
            return
        for at in range(0, len(chunks), CHUNKS_A_STEP):
            yield index.sound(old, chunks[at : at + CHUNKS_A_STEP])
    except Error as error:
        if not is_damage(error):
            raise


def _is_readable(old: Connection, index: SpaceIndex, dimension: int) -> bool:
    if not index.exists(old) or vec0_shadow.shape_faults(old, index.table, dimension):
        return False
    tables = ("vector_checksums", *vec0_shadow.part_tables(index.table))
    checks = (old.execute("SELECT * FROM pragma_integrity_check(?)", (table,)).fetchall() for table in tables)
    return all(check == [("ok",)] for check in checks)
