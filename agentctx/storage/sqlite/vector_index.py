"""Which index keeps the vectors of a space: the vec0 table in the file, or the rows on vectors outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from agentctx.sqlite.driver import Connection
from agentctx.storage.sqlite.outside_index import OutsideIndex
from agentctx.storage.sqlite.space_index import SpaceIndex
from agentctx.vector_stores.outside import ChunkVector

IN_THE_FILE: Final = "sqlite-vec"
"""The `vector_store` of a space whose vectors are in the database file."""


class VectorIndex(Protocol):
    """What transactions do with the vectors of a space; see `SpaceIndex` for each method."""

    @property
    def space(self) -> int: ...
    def exists(self, conn: Connection) -> bool: ...
    def create(self, conn: Connection, dimension: int) -> None: ...
    def drop(self, conn: Connection) -> None: ...
    def insert(self, conn: Connection, vectors: Iterable[ChunkVector]) -> None: ...
    def delete(self, conn: Connection, chunks: Sequence[int]) -> None: ...
    def count(self, conn: Connection) -> int: ...
    def chunk_ids(self, conn: Connection, first: int = ..., last: int = ...) -> list[int]: ...
    def faults(self, conn: Connection, dimension: int) -> list[str]: ...
    def strays(self, conn: Connection) -> int: ...


def index_of(space: int, vector_store: str) -> VectorIndex:
    """The index of a space by where its vectors are."""
    return SpaceIndex(space) if vector_store == IN_THE_FILE else OutsideIndex(space)
