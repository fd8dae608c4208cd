"""A cache of verified vectors of one space.

Reading and verifying a vector takes ten times as long as reading its checksum, and a question measures some
150. A cached vector is used only while the space has the checksum that it was verified by, so a vector that
was deleted or replaced is never measured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.vectors.space_index import MeasuredChunks, SpaceIndex, VerifiedVector, measured
from agentctx.storage.vectors import Vectors

MAX_BYTES: Final = 16 * 1024 * 1024
"""About 9,000 vectors of 384 numbers."""
OVERHEAD_BYTES: Final = 320
"""Memory per vector in addition to its numbers."""


class VerifiedVectors:
    """Measures chunks of one space. Any thread may call `measure`."""

    def __init__(self, space: int, max_bytes: int = MAX_BYTES) -> None:
        self._index = SpaceIndex(space)
        self._max_bytes = max_bytes
        self._kept: OrderedDict[int, VerifiedVector] = OrderedDict()

    def measure(self, conn: Connection, query: Vectors, chunks: Sequence[int]) -> MeasuredChunks:
        """Return the distances of the chunks that have an undamaged vector, and the damaged ones."""
        kept = {chunk: each for chunk in chunks if (each := self._kept.get(chunk)) is not None}
        checksums = self._index.checksums(conn, list(kept))
        known = {chunk: each for chunk, each in kept.items() if checksums.get(chunk) == each.checksum}
        read, damaged = self._index.verified(conn, [chunk for chunk in chunks if chunk not in known])
        self._keep(read)
        return measured([*known.values(), *read], query, damaged)

    def _keep(self, read: Sequence[VerifiedVector]) -> None:
        """Cache vectors, evicting the oldest. Each step is atomic, so threads need no lock."""
        for each in read:
            self._kept[each.chunk] = each
            if len(self._kept) * (len(each.vector) + OVERHEAD_BYTES) > self._max_bytes:
                self._kept.popitem(last=False)
