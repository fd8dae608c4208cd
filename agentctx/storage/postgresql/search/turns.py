"""The turns before and after a hit in a conversation. Read transactions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.search.filters import Parameters, entry_condition
from agentctx.storage.search import Filter, Turns

REACH = 2
"""Number of turns in each direction."""
TURNS_OF = "observation"
"""The collection whose sessions are conversations."""

_SIDE = """ARRAY(SELECT e.seq FROM entries e WHERE e.session <> '' AND e.namespace = here.namespace
      AND e.collection = here.collection AND e.session = here.session
      AND (e.created, e.seq) {comparison} (here.created, here.seq) AND {condition}
    ORDER BY e.created {order}, e.seq {order} LIMIT {reach})"""
_ROWS = """SELECT chunks.id, here.seq, {before}, {after}
    FROM chunks JOIN entries here ON here.seq = chunks.entry
    WHERE chunks.id = ANY({chunks}) AND here.live AND here.session <> '' AND here.collection = {turns_of}"""
_TURNS = """SELECT entry, min(id) FROM chunks WHERE entry = ANY($1) AND cue = 0
    GROUP BY entry HAVING count(*) = 1"""


class _Row(NamedTuple):
    """The row number of an entry, and of the entries said before and after it, nearest first."""

    seq: int
    before: list[int]
    after: list[int]


async def around(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> Turns:
    """Return the chunks next to those in a conversation that are within the filter.

    An entry with several chunks provides its own context, so it does not count as a turn.
    """
    rows = await _rows(conn, chunks, wanted, now)
    turns = await _turns(conn, {seq for row in rows.values() for seq in (row.seq, *row.before, *row.after)})
    beside = {chunk: _beside(row, turns) for chunk, row in rows.items()}
    # A session with only one or two entries has notes, not a conversation.
    return {chunk: others for chunk, others in beside.items() if len(others) > 1}


def _beside(row: _Row, turns: Mapping[int, int]) -> dict[int, int]:
    if row.seq not in turns:
        return {}
    before = {-at: seq for at, seq in enumerate(row.before, 1)}
    after = dict(enumerate(row.after, 1))
    return {at: turns[seq] for at, seq in sorted((before | after).items()) if seq in turns}


async def _rows(conn: Connection, chunks: Sequence[int], wanted: Filter, now: int) -> dict[int, _Row]:
    """Return the entries around each chunk's entry, if it was said in a session."""
    parameters = Parameters()
    condition = entry_condition(wanted, parameters, now=now)
    sql = _ROWS.format(
        before=_SIDE.format(comparison="<", order="DESC", condition=condition, reach=REACH),
        after=_SIDE.format(comparison=">", order="ASC", condition=condition, reach=REACH),
        chunks=parameters.add(list(chunks)),
        turns_of=parameters.add(TURNS_OF),
    )
    return {chunk: _Row(*row) for chunk, *row in await conn.fetch(sql, *parameters)}


async def _turns(conn: Connection, entries: Iterable[int]) -> dict[int, int]:
    """Map the entries that consist of a single chunk to that chunk."""
    return {row[0]: row[1] for row in await conn.fetch(_TURNS, list(entries))}
