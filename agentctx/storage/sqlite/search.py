"""Finding chunks by words and by vectors, and giving them their present text. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.sqlite.driver import Connection
from agentctx.storage.location import locate
from agentctx.storage.records import Filter, ResolvedChunk, VectorHit, WordHit
from agentctx.storage.sqlite import filters, fts
from agentctx.storage.sqlite.entries import CHUNK, CONTENT, SELECT_CHUNKS, entry_of
from agentctx.storage.sqlite.space_index import SpaceIndex
from agentctx.storage.words import match_expression

FEW_CHUNKS = 256
"""Up to here exact distances by point look-up beat a scan of the namespace (20 ids take 0.1 ms)."""

_CHUNK_IDS = "SELECT chunks.id FROM chunks JOIN entries e ON e.seq = chunks.entry WHERE "


def by_words(conn: Connection, question: str, wanted: Filter, limit: int, *, now: int) -> list[WordHit]:
    """The best chunks by BM25; none for a question without words."""
    terms = fts.question_terms(conn, question)
    expression = match_expression(terms, _scope(conn, wanted))
    if not expression:
        return []
    narrowed, parameters = "", ()
    if filters.is_narrow(wanted):
        condition = filters.entry_condition(wanted, now=now)
        # The + keeps FTS from running the whole question once for every id.
        narrowed, parameters = f"AND +chunk_fts.rowid IN ({_CHUNK_IDS} {condition.sql})", condition.parameters
    rows = conn.execute(
        f"""SELECT found.id, entries.id, -found.rank FROM
              (SELECT rowid AS id, rank FROM chunk_fts WHERE chunk_fts MATCH ? {narrowed}
               ORDER BY rank LIMIT ?) found
            JOIN chunks ON chunks.id = found.id JOIN entries ON entries.seq = chunks.entry
            ORDER BY found.rank, found.id""",  # noqa: S608 - built from constants of filters.py
        (expression, *parameters, limit),
    )
    return [WordHit(chunk, entry, score) for chunk, entry, score in rows]


def by_vector(
    conn: Connection, space: int, query: Vectors, wanted: Filter, limit: int, *, now: int
) -> list[VectorHit]:
    """The nearest chunks. Filters that the index does not know are resolved to ids first."""
    index = SpaceIndex(space)
    among = narrowed(conn, wanted, now=now)
    if among is not None and len(among) <= FEW_CHUNKS:
        exact = index.distances(conn, query, among)
        nearest = sorted(exact.items(), key=lambda item: (item[1], item[0]))[:limit]
    else:
        nearest = index.nearest(
            conn,
            query,
            limit,
            namespace=wanted.namespace,
            collections=wanted.collections,
            session=wanted.session,
            among=among,
        )
    return with_entries(conn, nearest)


def narrowed(conn: Connection, wanted: Filter, *, now: int) -> list[int] | None:
    """The chunks that a filter leaves; None when it holds nothing that an index of vectors does not know."""
    if not filters.is_narrow(wanted):
        return None
    condition = filters.entry_condition(wanted, now=now)
    return [row[0] for row in conn.execute(_CHUNK_IDS + condition.sql, condition.parameters)]


def with_entries(conn: Connection, nearest: Sequence[tuple[int, float]]) -> list[VectorHit]:
    """The hits of those chunks that are there, in the order given."""
    entries = _entry_ids(conn, [chunk for chunk, _ in nearest])
    return [VectorHit(chunk, entries[chunk], distance) for chunk, distance in nearest if chunk in entries]


def resolve(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> dict[int, ResolvedChunk]:
    """The chunks that are live, unexpired and inside the filter, each with its slice of the content."""
    condition = filters.entry_condition(wanted, now=now)
    rows = conn.execute(
        f"{SELECT_CHUNKS} WHERE {condition.sql}", (json.dumps(list(chunks)), *condition.parameters)
    )
    return {row[CHUNK]: _resolved(row) for row in rows}


def _resolved(row: Any) -> ResolvedChunk:
    chunk, start, end = row[CHUNK:]
    content, entry = row[CONTENT], entry_of(row, content="")
    return ResolvedChunk(
        chunk=chunk,
        start=start,
        end=end,
        content=content[start:end],
        entry=entry,
        location=locate(entry.attributes, content, start, end),
    )


def _scope(conn: Connection, wanted: Filter) -> list[list[str]]:
    """The scope groups that narrow anything: that of the only namespace matches every chunk, at a price."""
    others = conn.execute(
        """SELECT EXISTS (SELECT 1 FROM entries WHERE live = 1 AND namespace < ?)
               OR EXISTS (SELECT 1 FROM entries WHERE live = 1 AND namespace > ?)""",
        (wanted.namespace, wanted.namespace),
    ).fetchone()[0]
    namespace, *narrower = filters.scope_groups(wanted)
    return [namespace, *narrower] if others else narrower


def _entry_ids(conn: Connection, chunks: Sequence[int]) -> dict[int, str]:
    rows = conn.execute(
        """SELECT chunks.id, entries.id FROM chunks JOIN entries ON entries.seq = chunks.entry
           WHERE chunks.id IN (SELECT value FROM json_each(?))""",
        (json.dumps(list(chunks)),),
    )
    return {row[0]: row[1] for row in rows}
