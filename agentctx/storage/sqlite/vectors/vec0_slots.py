"""The slots of a vec0 table: counts used and dead ones, and packs the vectors.

vec0 puts a new vector only into the newest block of its namespace. A slot that is freed in an older block is
dead: it takes up space in the file until the last vector of its block is gone and vec0 removes the block. So
the vectors of a sparse block are deleted and inserted again, which moves them into the newest block.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np

from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import BLOCK_SIZE, quoted
from agentctx.storage.proofs import SlotCount

_BLOCKS: Final = "SELECT chunk_id, partition00, validity FROM {blocks}"
_SLOTS: Final = "SELECT validity, rowids FROM {blocks} WHERE chunk_id = ?"
_ROWS: Final = """
SELECT vectors.id, vectors.namespace, vectors.collection, vectors.session, vectors.embedding
FROM json_each(?) AS wanted CROSS JOIN {table} AS vectors ON vectors.id = wanted.value
"""


@dataclass(frozen=True, slots=True)
class SlotBlock:
    """A block of `BLOCK_SIZE` slots, `used` of which hold a vector. Newer ones have higher numbers."""

    number: int
    namespace: str
    used: int


def blocks(connection: Connection, table: str) -> list[SlotBlock]:
    """Return all blocks. Reads no vectors; only for a table without `vec0_shadow.shape_faults`."""
    rows = connection.execute(_BLOCKS.format(blocks=quoted(f"{table}_chunks")))
    return [
        SlotBlock(number, namespace, int.from_bytes(bits, "little").bit_count())
        for number, namespace, bits in rows
    ]


def count_slots(found: Iterable[SlotBlock]) -> SlotCount:
    used = dead = allocated = 0
    for group in _by_namespace(found).values():
        used_here = sum(block.used for block in group)
        used += used_here
        dead += _blocks_to_save(group) * BLOCK_SIZE
        allocated += len(group) * BLOCK_SIZE
    return SlotCount(used, dead, allocated - used - dead)


def sparsest(found: Iterable[SlotBlock]) -> SlotBlock | None:
    """Return the block to empty next, with the fewest vectors to move; None if packing saves no block.

    It is never the newest block of its namespace, to which the vectors move, nor an empty one. Emptying
    blocks repeatedly comes to an end, because each time fewer slots of older blocks are free.
    """
    older: list[SlotBlock] = []
    for group in _by_namespace(found).values():
        if _blocks_to_save(group):
            newest = max(block.number for block in group)
            older += [block for block in group if block.used and block.number != newest]
    return min(older, key=lambda block: (block.used, block.number), default=None)


def move(connection: Connection, table: str, number: int, limit: int) -> int:
    """Move up to `limit` vectors of a block into the newest one of its namespace; return how many.

    The vectors are unchanged. vec0 removes the block with its last vector. A missing block has none.
    """
    ids = _stored_in(connection, table, number)[:limit]
    rows = connection.execute(_ROWS.format(table=quoted(table)), (json.dumps(ids),)).fetchall()
    vec0.delete_vectors(connection, table, [row[0] for row in rows])
    vec0.insert_vectors(connection, table, rows)
    return len(rows)


def _stored_in(connection: Connection, table: str, number: int) -> list[int]:
    row = connection.execute(_SLOTS.format(blocks=quoted(f"{table}_chunks")), (number,)).fetchone()
    if row is None:
        return []
    bits, ids = row
    used = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little").tolist()
    return list(compress(np.frombuffer(ids, dtype="<i8").tolist(), used))


def _by_namespace(found: Iterable[SlotBlock]) -> Mapping[str, Sequence[SlotBlock]]:
    groups: defaultdict[str, list[SlotBlock]] = defaultdict(list)
    for block in found:
        groups[block.namespace].append(block)
    return groups


def _blocks_to_save(group: Sequence[SlotBlock]) -> int:
    """Return how many blocks fewer would suffice for the vectors of a namespace."""
    used = sum(block.used for block in group)
    return len(group) - -(-used // BLOCK_SIZE)
