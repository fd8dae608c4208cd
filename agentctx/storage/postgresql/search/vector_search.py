"""Vector search: exact, or by the index of a namespace that has one. Read transactions only."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.search.filters import Parameters, is_whole_namespace
from agentctx.storage.postgresql.search.hits import CUSTOM_PLANS, first_hits, lets_more_through
from agentctx.storage.postgresql.vectors import nearest_index
from agentctx.storage.records import Filter, NearestChunk

FEW_ENTRIES: Final = 5_000
"""If at most this many entries match a filter, their vectors are measured one by one."""
_SETTINGS: Final = (
    f"""{CUSTOM_PLANS}; SET LOCAL hnsw.ef_search = 100; SET LOCAL hnsw.iterative_scan = strict_order"""
)

# An index returns its rows in the order of the bare distance; adding 0 keeps it from being used.
_ALL: Final = "(SELECT chunk, (embedding <=> {query}) + 0 AS value FROM {table})"
_OF_NAMESPACE: Final = """(SELECT chunk, (embedding <=> {query}) + 0 AS value FROM {table}
    WHERE namespace = {namespace} ORDER BY 2, 1)"""
_BY_INDEX: Final = "(SELECT chunk, embedding <=> {query} AS value FROM {table} WHERE namespace = {namespace})"
_DISTANCES: Final = "SELECT chunk, embedding <=> $1::text::halfvec FROM {table} WHERE chunk = ANY($2)"


async def by_vector(
    conn: Connection, space: int, query: Vectors, wanted: Filter, limit: int, *, now: int
) -> list[NearestChunk]:
    """Return the nearest hits."""
    await conn.execute(_SETTINGS)
    is_narrow = not is_whole_namespace(wanted) and not await lets_more_through(
        conn, wanted, FEW_ENTRIES, now=now
    )
    if not is_narrow and await nearest_index.is_there(conn, space, wanted.namespace):
        hits = await _nearest(conn, _BY_INDEX, space, query, wanted, limit, now)
        if len({hit.chunk for hit in hits}) == limit:
            return hits
    return await _nearest(conn, _ALL if is_narrow else _OF_NAMESPACE, space, query, wanted, limit, now)


async def distances(conn: Connection, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
    """Return the exact distances of the chunks that have a vector in the space."""
    rows = await conn.fetch(_DISTANCES.format(table=table_of(space)), literal(query), list(chunks))
    return {chunk: distance for chunk, distance in rows if isfinite(distance)}


def literal(vector: Vectors) -> str:
    """Format a vector for PostgreSQL."""
    return str(vector.tolist())


def table_of(space: int) -> str:
    return f"vec_{space:d}"


async def _nearest(
    conn: Connection, ranked: str, space: int, query: Vectors, wanted: Filter, limit: int, now: int
) -> list[NearestChunk]:
    given = Parameters()
    named = {"query": f"{given.add(literal(query))}::text::halfvec", "table": table_of(space)}
    if ranked is _OF_NAMESPACE:
        named["namespace"] = given.add(wanted.namespace)
    elif ranked is _BY_INDEX:
        named["namespace"] = nearest_index.quoted(wanted.namespace)
    order = "" if ranked is _BY_INDEX else ", hit.chunk"
    return await first_hits(
        conn, NearestChunk, ranked.format(**named), given, wanted, order=order, limit=limit, now=now
    )
