"""Vector search: exact, or by the namespace's index if it has one.

Connections must not be in a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final

from agentctx.storage.search import Filter, NearestChunk
from agentctx.storage.vectors import Vectors
from agentctx_postgresql import pgvector
from agentctx_postgresql.driver import NEAREST_SETTINGS, Connection, in_snapshot
from agentctx_postgresql.search.filters import Parameters, is_whole_namespace, quoted
from agentctx_postgresql.search.hits import CUSTOM_PLANS, first_hits, matches_more_than
from agentctx_postgresql.vectors.nearest_index import CompleteIndexes

FEW_ENTRIES: Final = 5_000
"""If at most this many entries match a filter, their vectors are measured one by one."""
_POOLED_SETTINGS: Final = "; ".join(f"SET LOCAL {name} = {value}" for name, value in NEAREST_SETTINGS.items())

# An index can only order by the bare distance; adding 0 keeps it from being used.
_ALL: Final = "(SELECT chunk, (embedding <=> {query}) + 0 AS value FROM {table})"
_OF_NAMESPACE: Final = """(SELECT chunk, (embedding <=> {query}) + 0 AS value FROM {table}
    WHERE namespace = {namespace} ORDER BY 2, 1)"""
_BY_INDEX: Final = "(SELECT chunk, embedding <=> {query} AS value FROM {table} WHERE namespace = {namespace})"
_DISTANCES: Final = "SELECT chunk, embedding <=> $1::halfvec FROM {table} WHERE chunk = ANY($2)"
_DISTANCE: Final = "(SELECT embedding <=> {query}::halfvec FROM {table} WHERE chunk = c.id)"


async def by_vector(
    conn: Connection,
    indexes: CompleteIndexes,
    space: int,
    query: Vectors,
    wanted: Filter,
    limit: int,
    *,
    now: int,
) -> list[NearestChunk]:
    """Return the nearest hits."""
    nearest = partial(_nearest, conn, space=space, query=query, wanted=wanted, limit=limit, now=now)
    if not is_whole_namespace(wanted) and not await matches_more_than(conn, wanted, FEW_ENTRIES, now=now):
        async with in_snapshot(conn, CUSTOM_PLANS):
            return await nearest(_ALL)
    if await indexes.include(conn, space, wanted.namespace):
        if conn.is_in_transaction():  # behind a pooler, where session settings do not last
            await conn.execute(_POOLED_SETTINGS)
        hits = await nearest(_BY_INDEX)
        if len({hit.chunk for hit in hits}) == limit:
            return hits
    return await nearest(_OF_NAMESPACE)


async def distances(conn: Connection, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
    """Return the exact distances of the chunks that have a vector in the space."""
    rows = await conn.fetch(
        _DISTANCES.format(table=table_of(space)), pgvector.encode_halfvec(query), list(chunks)
    )
    return finite(dict(rows))


def distance_sql(space: int, query: Vectors, parameters: Parameters) -> str:
    """Return an SQL expression for the exact distance of the chunk `c`; NULL if it has no vector."""
    return _DISTANCE.format(query=parameters.add(pgvector.encode_halfvec(query)), table=table_of(space))


def finite(distances: Mapping[int, float | None]) -> dict[int, float]:
    """Return the distances that are finite numbers."""
    return {
        chunk: distance
        for chunk, distance in distances.items()
        if distance is not None and isfinite(distance)
    }


def table_of(space: int) -> str:
    return f"vec_{space:d}"


async def _nearest(
    conn: Connection, ranked: str, *, space: int, query: Vectors, wanted: Filter, limit: int, now: int
) -> list[NearestChunk]:
    parameters = Parameters()
    table = ranked.format(
        query=f"{parameters.add(pgvector.encode_halfvec(query))}::halfvec",
        table=table_of(space),
        namespace=quoted(wanted.namespace),
    )
    order = "" if ranked is _BY_INDEX else ", hit.chunk"
    return await first_hits(conn, NearestChunk, table, parameters, wanted, order=order, limit=limit, now=now)
