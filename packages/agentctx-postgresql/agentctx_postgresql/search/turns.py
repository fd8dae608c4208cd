"""The turns before and after a hit in a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from agentctx.storage.search import Filter, Turns
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search.filters import Parameters, entry_condition

REACH = 2
"""Number of turns in each direction."""
TURNS_OF = "observation"
"""The collection whose sessions are conversations."""

_TURN = "(SELECT min(id) FROM chunks WHERE entry = {seq} AND cue = 0 HAVING count(*) = 1)"
_SIDE = """ARRAY(SELECT {turn} FROM entries e WHERE e.session <> '' AND e.namespace = here.namespace
      AND e.collection = here.collection AND e.session = here.session
      AND (e.created, e.seq) {comparison} (here.created, here.seq) AND {condition}
    ORDER BY e.created {order}, e.seq {order} LIMIT {reach})"""
_ROWS = """SELECT chunks.id, {turn}, {before}, {after}
    FROM chunks JOIN entries here ON here.seq = chunks.entry
    WHERE chunks.id = ANY({chunks}) AND here.live AND here.session <> '' AND here.collection = {turns_of}"""


class _Row(NamedTuple):
    """The chunk of an entry, and those of the entries said before and after it, nearest first.

    None stands for an entry with several chunks.
    """

    turn: int | None
    before: list[int | None]
    after: list[int | None]


async def around(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> Turns:
    """Return the chunks next to those in a conversation that are within the filter.

    An entry with several chunks provides its own context, so it does not count as a turn.
    """
    beside = {chunk: _beside(row) for chunk, row in (await _rows(conn, chunks, wanted, now)).items()}
    # A session with only one or two entries has notes, not a conversation.
    return {chunk: others for chunk, others in beside.items() if len(others) > 1}


def _beside(row: _Row) -> dict[int, int]:
    if row.turn is None:
        return {}
    before = {-at: turn for at, turn in enumerate(row.before, 1)}
    after = dict(enumerate(row.after, 1))
    return {at: turn for at, turn in sorted((before | after).items()) if turn is not None}


async def _rows(conn: Connection, chunks: Sequence[int], wanted: Filter, now: int) -> dict[int, _Row]:
    """Return the turns around each chunk's entry, if it was said in a session."""
    parameters = Parameters()
    condition = entry_condition(wanted, parameters, now=now)
    side = partial(_SIDE.format, turn=_TURN.format(seq="e.seq"), condition=condition, reach=REACH)
    sql = _ROWS.format(
        turn=_TURN.format(seq="here.seq"),
        before=side(comparison="<", order="DESC"),
        after=side(comparison=">", order="ASC"),
        chunks=parameters.add(list(chunks)),
        turns_of=parameters.add(TURNS_OF),
    )
    return {chunk: _Row(*row) for chunk, *row in await conn.fetch(sql, *parameters)}
