"""The turns before and after a hit in a conversation. Read transactions only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from agentctx.storage.file.driver import Connection
from agentctx.storage.search import REACH, TURNS_OF, Filter, Neighbours, SaidAround, neighbours
from agentctx.storage.sqlite.search import filters, traits
from agentctx.storage.sqlite.search.filters import Condition
from agentctx.storage.sqlite.search.traits import Rows

_SIDE = """(SELECT group_concat(seq) FROM (SELECT e.seq FROM entries e INDEXED BY entries_turns
    WHERE e.live = 1 AND e.session <> '' AND e.namespace = here.namespace
      AND e.collection = here.collection AND e.session = here.session
      AND (e.created, e.seq) {comparison} (here.created, here.seq) AND {condition}
    ORDER BY e.created {order}, e.seq {order} LIMIT ?))"""
_ROWS = """SELECT chunks.id, here.seq, {before}, {after}
    FROM json_each(?) wanted CROSS JOIN chunks ON chunks.id = wanted.value
    CROSS JOIN entries here ON here.seq = chunks.entry
    WHERE here.live = 1 AND here.session <> '' AND here.collection = ?"""


class _Row(NamedTuple):
    """The row number of an entry, and of the entries before and after it, nearest first."""

    seq: int
    before: list[int]
    after: list[int]


def around(conn: Connection, chunks: Sequence[int], wanted: Filter, *, now: int) -> tuple[Neighbours, Rows]:
    """Return the chunks beside those in a conversation that the filter allows, and the rows of all turns."""
    rows = _rows(conn, chunks, filters.entry_condition(wanted, now=now))
    found = traits.of_entries(
        conn, {seq for row in rows.values() for seq in (row.seq, *row.before, *row.after)}
    )
    turn = {row.seq: row.chunk for row in found.values()}.get
    said = {
        chunk: SaidAround(turn(row.seq), [*map(turn, row.before)], [*map(turn, row.after)])
        for chunk, row in rows.items()
    }
    return neighbours(said), found


def _rows(conn: Connection, chunks: Sequence[int], condition: Condition) -> dict[int, _Row]:
    """Return the neighbours of the chunks whose entries belong to a session."""
    sql = _ROWS.format(
        before=_SIDE.format(comparison="<", order="DESC", condition=condition.sql),
        after=_SIDE.format(comparison=">", order="ASC", condition=condition.sql),
    )
    side = (*condition.parameters, REACH)
    found = conn.execute(sql, (*side, *side, json.dumps(list(chunks)), TURNS_OF))
    return {chunk: _Row(seq, _numbers(before), _numbers(after)) for chunk, seq, before, after in found}


def _numbers(joined: str | None) -> list[int]:
    return list(map(int, joined.split(","))) if joined else []
