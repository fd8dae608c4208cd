"""Compare the vectors in a storage with those the provider returns for the current texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from agentctx.storage.chunk_texts import embedding_text
from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.vectors import Vectors

Embed: TypeAlias = Callable[[list[str]], Awaitable[Vectors]]
"""The provider's vectors when nothing fails."""

LOOK_S = 60.0
_PRESENT = """SELECT chunks.id, chunks.start_at, chunks.end_at, entries.header, entries.content
              FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live = 1"""


@dataclass(frozen=True)
class Holding:
    """A snapshot of a space: each live chunk's embedded text, and the vectors that answers can use."""

    texts: Mapping[int, str]
    vectors: Mapping[int, Vectors]


@dataclass
class Judge:
    """Compares snapshots with the provider's correct vectors, requested once per text."""

    embed: Embed
    dimension: int
    _known: dict[str, Vectors] = field(default_factory=dict)

    async def wrong(self, holding: Holding, *, missing: Iterable[int] | None = None) -> list[str]:
        """Return what is wrong with the vectors. `missing` chunks may lack one; None means any may."""
        await self._learn(set(holding.texts.values()))
        found = [
            f"the vector of chunk {chunk} {problem}"
            for chunk, vector in holding.vectors.items()
            if (problem := self._problem(holding.texts.get(chunk), vector))
        ]
        if missing is not None:
            lost = holding.texts.keys() - holding.vectors.keys() - set(missing)
            found += [f"chunk {chunk} has no vector" for chunk in sorted(lost)]
        return found

    def _problem(self, text: str | None, vector: Vectors) -> str:
        if text is None:
            return "lacks its chunk"
        if vector.shape != (self.dimension,):
            return f"has the shape {vector.shape}"
        if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > 1e-4:
            return "is not of length 1"
        if not np.allclose(vector, self._known[text], atol=1e-5):
            return f"is stale: it is not that of {text[:60]!r}"
        return ""

    async def _learn(self, texts: set[str]) -> None:
        unknown = sorted(texts - self._known.keys())
        if unknown:
            self._known.update(zip(unknown, await self.embed(unknown), strict=True))


async def look(storage: SqliteStorage, space: int) -> Holding:
    """Read a snapshot."""
    return await storage.db.readers.run(partial(_snapshot, space=space), timeout_s=LOOK_S)


def _snapshot(connection: Connection, space: int) -> Holding:
    rows = connection.execute(f"SELECT id, embedding FROM {SpaceIndex(space).table}")  # noqa: S608 - no outside text
    return Holding(_texts(connection), {chunk: np.frombuffer(blob, np.float32) for chunk, blob in rows})


def _texts(connection: Connection) -> dict[int, str]:
    return {
        chunk: embedding_text(header, content[start:end])
        for chunk, start, end, header, content in connection.execute(_PRESENT)
    }
