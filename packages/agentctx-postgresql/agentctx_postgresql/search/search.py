"""Read the current text of chunks and neighbouring turns, and sample chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import is_chunk
from agentctx.storage.faults import Faults
from agentctx.storage.location import locate
from agentctx.storage.search import ChunksWithTurns, Filter, ResolvedChunk, SampledChunk
from agentctx.storage.vectors import Vectors
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries.rows import SELECT_CHUNKS, entry_of, verified
from agentctx_postgresql.search import turns, vector_search
from agentctx_postgresql.search.filters import Parameters, entry_condition

# Of `total` chunks in order, take the one at `total * number / limit` for each number below the limit.
_SAMPLE: Final = """SELECT c.id, e.id AS entry, e.namespace, e.content, e.header, c.start_at, c.end_at, c.hash
    FROM (SELECT chunks.id, row_number() OVER (ORDER BY chunks.id) - 1 AS place, count(*) OVER () AS total
          FROM chunks JOIN entries ON entries.seq = chunks.entry AND entries.live WHERE chunks.cue = 0) every
    JOIN chunks c ON c.id = every.id JOIN entries e ON e.seq = c.entry
    WHERE total <= $1 OR total * ((place * $1 + total - 1) / total) / $1 = place ORDER BY c.id"""


async def count_entries(conn: Connection, namespace: str) -> int:
    """Count the live entries of a namespace."""
    return int(await conn.fetchval("SELECT count(*) FROM entries WHERE live AND namespace = $1", namespace))


async def sample(conn: Connection, limit: int) -> list[SampledChunk]:
    """Sample up to `limit` live text chunks evenly, omitting damaged ones."""
    return [
        SampledChunk(row["id"], row["entry"], row["namespace"], text)
        for row in await conn.fetch(_SAMPLE, limit)
        if (text := _sound_text(row)) is not None
    ]


async def resolve(
    conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int, faults: Faults
) -> dict[int, ResolvedChunk]:
    """Return the chunks that are live, unexpired and within the filter, with their slice of the content.

    Damaged chunks are omitted.
    """
    return _resolved(await _rows(conn, chunks, wanted, now=now), faults)


async def resolve_with_turns(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    query: Vectors | None,
    *,
    space: int | None,
    now: int,
    faults: Faults,
) -> ChunksWithTurns:
    """Return the chunks and their neighbouring turns, with the distances of the turns.

    Two statements: a turn that is deleted between them is in `turns`, but not in `texts`.
    """
    around = await turns.around(conn, chunks, wanted, now=now)
    beside = {chunk for row in around.values() for chunk in row.values()}.difference(chunks)
    rows = await _rows(conn, [*chunks, *beside], wanted, query if beside else None, space=space, now=now)
    distances = {row["chunk"]: row["distance"] for row in rows if row["chunk"] in beside}
    return ChunksWithTurns(_resolved(rows, faults), around, vector_search.finite(distances))


async def _rows(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    query: Vectors | None = None,
    *,
    space: int | None = None,
    now: int,
) -> list[Any]:
    parameters = Parameters([list(chunks)])
    condition = entry_condition(wanted, parameters, now=now)
    distance = "NULL"
    if space is not None and query is not None:
        distance = vector_search.distance_sql(space, query, parameters)
    rows: list[Any] = await conn.fetch(
        f"{SELECT_CHUNKS.format(distance=distance)} WHERE {condition}", *parameters
    )
    return rows


def _resolved(rows: Sequence[Any], faults: Faults) -> dict[int, ResolvedChunk]:
    found = {}
    for row in rows:
        try:
            found[row["chunk"]] = _chunk_of(row)
        except StorageCorrupt:
            faults.record("entry", row["id"])
    return found


def _chunk_of(row: Any) -> ResolvedChunk:
    text = _sound_text(row)
    entry = entry_of(row, content="")
    if text is None:
        raise StorageCorrupt(f"A chunk of the entry {entry.id!r} is damaged on the disk.")
    if entry.attributes.get("file"):  # its location depends on the whole content
        verified(row)
    return ResolvedChunk(
        chunk=row["chunk"],
        start=row["start_at"],
        end=row["end_at"],
        content=text,
        entry=entry,
        location=locate(entry.attributes, row["content"], row["start_at"], row["end_at"]),
        flags=tuple(row["flags"]),
        stale=row["stale"],
    )


def _sound_text(row: Any) -> str | None:
    """Return the text of a chunk, or None if it is damaged."""
    start, end = row["start_at"], row["end_at"]
    is_sound = is_chunk(row["content"], start, end, header=row["header"], digest=row["hash"])
    return row["content"][start:end] if is_sound else None
