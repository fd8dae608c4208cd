"""The daemon's index over the vectors of one space: the vec0 table `vec_<space>`.

It takes the transaction and a mandatory namespace, and speaks in chunk ids and distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentctx.embedding_providers.base import Vectors
from agentctx.sqlite.driver import Connection
from agentctx.vector_stores import vec0


@dataclass(frozen=True, slots=True)
class ChunkVector:
    """A vector to store, with what narrows a search."""

    chunk: int
    namespace: str
    collection: str
    session: str
    vector: Vectors
    """Unit length, `(dimension,)`."""


@dataclass(frozen=True, slots=True)
class SpaceIndex:
    """Vectors of the space with this id. The table must have been made by `create`."""

    space: int

    @property
    def table(self) -> str:
        return f"vec_{self.space}"

    def create(self, conn: Connection, dimension: int) -> None:
        vec0.create_space_table(conn, self.table, dimension)

    def drop(self, conn: Connection) -> None:
        vec0.drop_space_table(conn, self.table)

    def insert(self, conn: Connection, vectors: Iterable[ChunkVector]) -> None:
        """Store vectors of chunks that have none here."""
        rows = [(v.chunk, v.namespace, v.collection, v.session, v.vector.tobytes()) for v in vectors]
        vec0.insert_vectors(conn, self.table, rows)

    def delete(self, conn: Connection, chunks: Sequence[int]) -> None:
        vec0.delete_vectors(conn, self.table, chunks)

    def nearest(
        self,
        conn: Connection,
        query: Vectors,
        limit: int,
        *,
        namespace: str,
        collections: Sequence[str] | None = None,
        session: str | None = None,
        among: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        """The `limit` nearest chunks of the namespace, ascending; `among` narrows to chunk ids."""
        return vec0.nearest(
            conn,
            self.table,
            query.tobytes(),
            limit,
            namespace=namespace,
            collections=collections,
            session=session,
            ids=among,
        )

    def distances(self, conn: Connection, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        """Exact distances of those chunks that have a vector here."""
        return vec0.exact_distances(conn, self.table, query.tobytes(), chunks)

    def chunk_ids(self, conn: Connection) -> list[int]:
        """Every chunk that has a vector here."""
        return vec0.stored_ids(conn, self.table)
