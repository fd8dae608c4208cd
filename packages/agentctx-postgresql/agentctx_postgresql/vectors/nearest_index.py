"""HNSW indexes, one for each namespace with too many vectors to measure for every question.

A single index would miss most vectors of a small namespace, because it filters the overall nearest ones.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

from agentctx_postgresql.connections import PostgresqlConnections
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries import chunks
from agentctx_postgresql.search.filters import quoted
from agentctx_postgresql.upkeep import leases, tidying

LARGE_NAMESPACE: Final = 5_000
"""Number of vectors at which a namespace gets an index: comparing that many takes 6 ms."""
MAX_DIMENSIONS: Final = 4_000
"""Maximum dimension of an HNSW index on `halfvec`; longer vectors are compared one by one."""
CACHED_S: Final = 60.0
TASK: Final = "indexes"
LEASE_MS: Final = 3_600_000
"""Long, because building an index of a million vectors takes minutes."""

_COMPLETE: Final = """SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indisvalid AND relnamespace = current_schema()::regnamespace
      AND relname LIKE 'vec\\_%\\_near\\_%'"""
_LARGE: Final = """SELECT namespace FROM vec_{space:d}
    WHERE (SELECT dimension FROM spaces WHERE id = {space:d}) <= {dimensions:d}
    GROUP BY namespace HAVING count(*) >= {large:d} ORDER BY namespace"""
_NAMED: Final = """SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass($1) AND relname LIKE $1 || '\\_near\\_%' {condition} ORDER BY relname"""
_CREATE: Final = """CREATE INDEX CONCURRENTLY {name} ON vec_{space:d}
    USING hnsw (embedding halfvec_cosine_ops) WHERE namespace = {namespace}"""


def name_of(space: int, namespace: str) -> str:
    """Return the name of a namespace's index."""
    return f"vec_{space:d}_near_{hashlib.sha256(namespace.encode()).hexdigest()[:16]}"


class CompleteIndexes:
    """The complete indexes, read once a minute because any daemon may build one."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._until = 0.0

    async def include(self, conn: Connection, space: int, namespace: str) -> bool:
        """Return whether the namespace has a complete index."""
        if time.monotonic() >= self._until:
            self._names = frozenset(row[0] for row in await conn.fetch(_COMPLETE))
            self._until = time.monotonic() + CACHED_S
        return name_of(space, namespace) in self._names


async def build_next(conn: Connection, space: int) -> bool:
    """Drop an unfinished index or create a missing one; return False if there is nothing to do.

    The connection must not be in a transaction. Saves are not blocked.
    """
    if left := await conn.fetchval(_NAMED.format(condition="AND NOT indisvalid"), f"vec_{space:d}"):
        await conn.execute(f"DROP INDEX CONCURRENTLY {left}")
        return True
    known = {row[0] for row in await conn.fetch(_NAMED.format(condition=""), f"vec_{space:d}")}
    for (namespace,) in await conn.fetch(
        _LARGE.format(space=space, dimensions=MAX_DIMENSIONS, large=LARGE_NAMESPACE)
    ):
        name = name_of(space, namespace)
        if name not in known:
            await conn.execute(_CREATE.format(name=name, space=space, namespace=quoted(namespace)))
            return True
    return False


async def build_one(db: PostgresqlConnections) -> bool:
    """Build one missing or due index, on one of the daemons; return False if there is none.

    Namespaces with many vectors get an index each; word indexes are rebuilt once they have kept deleted words
    for a day.

    Raises:
        StorageFailed.
    """
    if not await leases.take(db, TASK, LEASE_MS):
        return False
    try:
        return await db.prepare(_build_one)
    finally:
        await leases.release(db, TASK)


async def _build_one(conn: Connection) -> bool:
    for space in await chunks.prepared(conn):
        if await build_next(conn, space):
            return True
    return await tidying.reindex_if_due(conn)
