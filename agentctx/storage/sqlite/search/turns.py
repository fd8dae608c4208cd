"""The turns of a conversation before and after a hit. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agentctx.sqlite.driver import Connection
from agentctx.storage.records import Filter, Turns
from agentctx.storage.sqlite.search import filters

REACH = 2
"""Turns looked at in each direction."""
TURNS_OF = "observation"
"""The collection whose sessions are conversations."""

_SIDE = """SELECT e.seq FROM entries e INDEXED BY entries_turns
    WHERE e.live = 1 AND e.session <> '' AND e.namespace = ? AND e.collection = ? AND e.session = ?
    AND (e.created, e.seq) {comparison} (?, ?) AND {condition}
    ORDER BY e.created {order}, e.seq {order} LIMIT ?"""


class _Place(NamedTuple):
    """Where an entry stands."""

    seq: int
    namespace: str
    collection: str
    session: str
    created: int


def around(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> Turns:
    """The chunks beside those that belong to a conversation, as far as the filter lets them be seen.

    What is long enough to be several chunks says itself what it is about: it is no turn.
    """
    places = _places(conn, chunks)
    condition = filters.entry_condition(wanted, now=now)
    rows = {place.seq: _row(conn, place, condition) for place in set(places.values())}
    turns = _turns(conn, {seq for row in rows.values() for seq in row})
    beside = {chunk: _beside(rows[place.seq], place.seq, turns) for chunk, place in places.items()}
    # One or two entries of a session are notes, and no conversation.
    return {chunk: others for chunk, others in beside.items() if len(others) > 1}


def _beside(row: list[int], seq: int, turns: dict[int, int]) -> dict[int, int]:
    at = row.index(seq)
    if seq not in turns:
        return {}
    return {here - at: turns[each] for here, each in enumerate(row) if here != at and each in turns}


def _places(conn: Connection, chunks: Sequence[int]) -> dict[int, _Place]:
    rows = conn.execute(
        """SELECT chunks.id, e.seq, e.namespace, e.collection, e.session, e.created
           FROM json_each(?) wanted CROSS JOIN chunks ON chunks.id = wanted.value
           CROSS JOIN entries e ON e.seq = chunks.entry
           WHERE e.live = 1 AND e.session <> '' AND e.collection = ?""",
        (json.dumps(list(chunks)), TURNS_OF),
    )
    return {chunk: _Place(*place) for chunk, *place in rows}


def _row(conn: Connection, place: _Place, condition: Any) -> list[int]:
    """The numbers of the entries around one, itself among them, in the order they were said."""

    def side(comparison: str, order: str) -> list[int]:
        sql = _SIDE.format(comparison=comparison, condition=condition.sql, order=order)
        session = (place.namespace, place.collection, place.session, place.created, place.seq)
        return [row[0] for row in conn.execute(sql, (*session, *condition.parameters, REACH))]

    return [*reversed(side("<", "DESC")), place.seq, *side(">", "ASC")]


def _turns(conn: Connection, entries: Iterable[int]) -> dict[int, int]:
    """Of the entries that are one chunk, that chunk."""
    rows = conn.execute(
        """SELECT chunks.entry, MIN(chunks.id) FROM json_each(?) wanted
           CROSS JOIN chunks ON chunks.entry = wanted.value AND chunks.cue = 0
           GROUP BY chunks.entry HAVING COUNT(*) = 1""",
        (json.dumps(list(entries)),),
    )
    return dict(rows.fetchall())
