"""Read the current text of chunks and neighbouring turns, and sample chunks. Read transactions only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.chunk_texts import is_chunk
from agentctx.storage.faults import Faults
from agentctx.storage.location import locate
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.entries.rows import SELECT_CHUNKS, entry_of, verified
from agentctx.storage.postgresql.search import turns
from agentctx.storage.postgresql.search.filters import Parameters, entry_condition
from agentctx.storage.postgresql.search.vector_search import distances
from agentctx.storage.postgresql.trust import provenance
from agentctx.storage.search import ChunksWithTurns, Filter, QueryVector, ResolvedChunk, SampledChunk

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
    parameters = Parameters([list(chunks)])
    condition = entry_condition(wanted, parameters, now=now)
    found = {}
    for row in await conn.fetch(f"{SELECT_CHUNKS} WHERE {condition}", *parameters):
        try:
            found[row["chunk"]] = _resolved(row)
        except StorageCorrupt:
            faults.note("entry", row["id"])
    flags = await provenance.flags_of(conn, [each.entry.id for each in found.values()])
    return {
        chunk: replace(each, flags=flags[each.entry.id]) if each.entry.id in flags else each
        for chunk, each in found.items()
    }


async def resolve_with_turns(
    conn: Connection,
    chunks: Sequence[int],
    wanted: Filter,
    near: QueryVector | None,
    *,
    now: int,
    faults: Faults,
) -> ChunksWithTurns:
    """Return the chunks and their neighbouring turns from one snapshot, with the distances of the turns."""
    around = await turns.around(conn, chunks, wanted, now=now)
    beside = list({chunk for row in around.values() for chunk in row.values()}.difference(chunks))
    texts = await resolve(conn, [*chunks, *beside], wanted, now=now, faults=faults)
    measured = await distances(conn, near.space, near.query, beside) if near and beside else {}
    return ChunksWithTurns(texts, around, measured)


def _resolved(row: Any) -> ResolvedChunk:
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
    )


def _sound_text(row: Any) -> str | None:
    """Return the text of a chunk, or None if it is damaged."""
    start, end = row["start_at"], row["end_at"]
    is_sound = is_chunk(row["content"], start, end, header=row["header"], digest=row["hash"])
    return row["content"][start:end] if is_sound else None
