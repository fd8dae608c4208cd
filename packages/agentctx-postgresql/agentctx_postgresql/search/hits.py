"""Convert ranked chunks to hits within the filter, and cues to the text to which they lead."""

from __future__ import annotations

from math import isfinite
from typing import Final

from agentctx.storage.search import CUE_OVERFETCH, Filter, Hit, best_of
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.search.filters import Parameters, entry_condition

CUSTOM_PLANS: Final = "SET LOCAL plan_cache_mode = force_custom_plan"
"""A generic plan does not know how many entries match a filter."""

_IS_MORE: Final = "SELECT EXISTS (SELECT 1 FROM entries e WHERE {condition} OFFSET {few})"
_HITS: Final = """SELECT CASE c.cue WHEN 0 THEN c.id ELSE shown.id END, e.id, hit.value,
      CASE c.cue WHEN 0 THEN 0 ELSE c.id END
    FROM {ranked} hit JOIN chunks c ON c.id = hit.chunk JOIN entries e ON e.seq = c.entry
    LEFT JOIN chunks shown ON c.cue <> 0 AND shown.entry = c.entry AND shown.ordinal = 0 AND shown.cue = 0
    WHERE {condition} ORDER BY hit.value {order} LIMIT {limit}"""


async def first_hits(
    conn: Connection,
    kind: type[Hit],
    ranked: str,
    parameters: Parameters,
    wanted: Filter,
    *,
    order: str,
    limit: int,
    now: int,
) -> list[Hit]:
    """Return the hits of the best `limit` chunks: for each, the best by text and the best by a cue.

    `ranked` is an SQL table expression with the columns `chunk` and `value`, which uses `parameters`. The
    limit is raised so that one entry's cues do not displace other entries; cues without a text are omitted.
    """
    condition = entry_condition(wanted, parameters, now=now)
    sql = _HITS.format(ranked=ranked, condition=condition, order=order, limit=f"${len(parameters) + 1}")

    max_rows = limit
    while True:
        rows = await conn.fetch(sql, *parameters, max_rows)
        hits = [kind(*row) for row in rows if row[0] is not None and isfinite(row[2])]
        if len(rows) < max_rows or len({hit.chunk for hit in hits}) >= limit:
            return best_of(hits, limit)
        max_rows *= CUE_OVERFETCH


async def matches_more_than(conn: Connection, wanted: Filter, few: int, *, now: int) -> bool:
    """Return whether more than `few` entries match a filter."""
    parameters = Parameters()
    condition = entry_condition(wanted, parameters, now=now)
    return bool(await conn.fetchval(_IS_MORE.format(condition=condition, few=few), *parameters))
