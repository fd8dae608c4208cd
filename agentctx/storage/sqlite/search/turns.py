"""The turns of a conversation before and after a hit. Read transactions only."""

from __future__ import annotations

import json
from collections import defaultdict
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

    A long turn is several chunks, which follow one another as turns do.
    """
    places = _places(conn, chunks)
    condition = filters.entry_condition(wanted, now=now)
    rows = {place.seq: _row(conn, place, condition) for place in set(places.values())}
    cut = _chunks_of(conn, {seq for row in rows.values() for seq in row})
    beside: Turns = {}
    for chunk, place in places.items():
        line = [each for seq in rows[place.seq] for each in cut[seq]]
        at = line.index(chunk)
        beside[chunk] = {
            offset: line[at + offset]
            for offset in range(-REACH, REACH + 1)
            if offset and 0 <= at + offset < len(line)
        }
    return beside


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


def _chunks_of(conn: Connection, entries: Iterable[int]) -> dict[int, list[int]]:
    cut: defaultdict[int, list[int]] = defaultdict(list)
    rows = conn.execute(
        """SELECT chunks.entry, chunks.id FROM json_each(?) wanted
           CROSS JOIN chunks ON chunks.entry = wanted.value ORDER BY chunks.entry, chunks.ordinal""",
        (json.dumps(list(entries)),),
    )
    for entry, chunk in rows:
        cut[entry].append(chunk)
    return cut
