"""Look up live entries, pages, histories and exports. Every function runs inside the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from agentctx.errors import StorageCorrupt
from agentctx.storage.entries import (
    EXPORT_PAGE_CHARS,
    MAX_PAGE_CHARS,
    ExportedVectors,
    ExportPage,
    ExportRow,
    ExportSelection,
)
from agentctx.storage.faults import Faults, ReadContext
from agentctx.storage.filters import LAST_CHARACTER
from agentctx.storage.ids import is_id
from agentctx.storage.quarantine import WAITS
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter
from agentctx.storage.supersession import NOT_SUPERSEDED, FindNamed
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.entries.rows import SELECT_ENTRY, SELECT_HEAD, verified
from agentctx_postgresql.search.filters import Parameters, entry_condition

ROWS_AT_ONCE: Final = 20
"""Number of rows fetched at once, limited because a text may be a megabyte long."""
_WITH_ID: Final = f"{SELECT_ENTRY} WHERE e.live AND e.namespace = $1 AND e.id = $2"
_WITH_KEY: Final = f"{SELECT_ENTRY} WHERE e.live AND e.namespace = $1 AND e.key = $2"
LIVE: Final = "id = $1 AND live AND (expires IS NULL OR expires > $2)"

_ACTIVE: Final = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"
_OLDEST_RUNNING: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_COUNTS: Final = f"""SELECT namespace, sum(entries)::bigint FROM (
      SELECT namespace, count(*) AS entries FROM entries WHERE live GROUP BY namespace
      UNION ALL SELECT namespace, -1 FROM (
        SELECT id, namespace FROM entries WHERE live AND expires IS NOT NULL AND expires <= $1
        UNION SELECT e.id, e.namespace FROM file_states JOIN entries e ON e.id = file_states.entry AND e.live
        WHERE file_states.state = 'withdrawn'
        UNION SELECT e.id, e.namespace FROM quarantine JOIN entries e ON e.id = quarantine.entry AND e.live
        WHERE {WAITS}
        UNION SELECT e.id, e.namespace FROM supersessions JOIN entries e ON e.id = older AND e.live
        WHERE NOT {NOT_SUPERSEDED.format(now="$1")}) AS hidden) AS counted
    GROUP BY namespace HAVING sum(entries) > 0"""  # noqa: S608 - constants


async def get(
    conn: Connection, entry_id: str, *, now: int, version: int | None = None
) -> tuple[int, Entry] | None:
    """Return the row number and the entry: the live version, or the given one. Raises StorageCorrupt."""
    row = await conn.fetchrow(
        f"""{SELECT_ENTRY} WHERE e.id = $1 AND (e.expires IS NULL OR e.expires > $2)
            AND CASE WHEN $3::int IS NULL THEN e.live ELSE e.version = $3 END""",
        entry_id,
        now,
        version,
    )
    return None if row is None else (row["seq"], verified(row))


async def entry(conn: Connection, at: ReadContext, entry_id: str, version: int | None = None) -> Entry | None:
    found = await get(conn, entry_id, now=at.now, version=version)
    return found[1] if found else None


async def entry_by_key(
    conn: Connection, at: ReadContext, namespace: str, collection: str, key: str
) -> Entry | None:
    """Return the live entry with this key."""
    row = await conn.fetchrow(
        f"""{SELECT_ENTRY} WHERE e.namespace = $1 AND e.collection = $2 AND e.key = $3 AND e.live
            AND (e.expires IS NULL OR e.expires > $4)""",
        namespace,
        collection,
        key,
        at.now,
    )
    return None if row is None else verified(row)


async def namespace_of(conn: Connection, at: ReadContext, entry_id: str) -> str | None:
    """Return the namespace of the live version, damaged or not, or None."""
    found = await conn.fetchval(f"SELECT namespace FROM entries WHERE {LIVE}", entry_id, at.now)  # noqa: S608 - constant
    return None if found is None else str(found)


async def find_named(conn: Connection, wanted: FindNamed) -> list[Entry]:
    select = _WITH_ID if is_id(wanted.name) else _WITH_KEY
    rows = await conn.fetch(select, wanted.namespace, wanted.name)
    return [verified(row) for row in rows]


async def find_by_prefix(
    conn: Connection, at: ReadContext, namespace: str, collection: str, prefix: str
) -> Entry | None:
    """Return the live entry of the first key that begins with the prefix."""
    row = await conn.fetchrow(
        f"""{SELECT_ENTRY} WHERE e.namespace = $1 AND e.collection = $2 AND e.key >= $3 AND e.key < $4
            AND e.live AND (e.expires IS NULL OR e.expires > $5) ORDER BY e.key LIMIT 1""",
        namespace,
        collection,
        prefix,
        prefix + LAST_CHARACTER,
        at.now,
    )
    return None if row is None else verified(row)


async def page(
    conn: Connection,
    at: ReadContext,
    wanted: Filter,
    *,
    limit: int,
    before: str | None = None,
    with_content: bool = True,
) -> tuple[list[Entry], str | None]:
    """Return up to `limit` entries below the id `before`, newest first, and the start of the next page.

    An edit does not move an entry, so that a walk over the pages misses none that stays.

    A page ends early after `MAX_PAGE_CHARS` of content. Damaged entries are omitted.
    """
    parameters = Parameters()
    condition = entry_condition(wanted, parameters, now=at.now)
    select = SELECT_ENTRY if with_content else SELECT_HEAD
    below = parameters.add(LAST_CHARACTER if before is None else before)
    count = parameters.add(limit + 1)
    rows = conn.cursor(
        f"{select} WHERE {condition} AND e.id < {below} ORDER BY e.id DESC LIMIT {count}",
        *parameters,
        prefetch=ROWS_AT_ONCE,
    )
    shown, is_last = await _shown(rows, limit)
    read = partial(verified, with_content=with_content)
    return at.faults.undamaged(shown, read, "id"), None if is_last else shown[-1]["id"]


async def history(
    conn: Connection, at: ReadContext, entry_id: str, *, limit: int, before: int | None = None
) -> tuple[list[Entry], int | None]:
    """Return up to `limit` versions older than `before`, newest first, and the start of the next page.

    Empty if the live version has expired. Like `page`, it may end early and omits damaged versions.
    """
    if await namespace_of(conn, at, entry_id) is None:
        return [], None
    rows = conn.cursor(
        f"{SELECT_ENTRY} WHERE e.id = $1 AND e.version < $2 ORDER BY e.version DESC LIMIT $3",
        entry_id,
        2**31 - 1 if before is None else before,
        limit + 1,
        prefetch=ROWS_AT_ONCE,
    )
    shown, is_last = await _shown(rows, limit)
    return at.faults.undamaged(shown, verified, "id"), None if is_last else shown[-1]["version"]


async def count_by_namespace(conn: Connection, at: ReadContext) -> dict[str, int]:
    """Return how many entries a page without other conditions would show, by namespace."""
    return dict(await conn.fetch(_COUNTS, at.now))


async def ids_of(conn: Connection, namespace: str, *, after: str, limit: int) -> list[str]:
    """Return the first ids above `after` of live entries, in whatever state."""
    rows = await conn.fetch(
        "SELECT id FROM entries WHERE namespace = $1 AND live AND id > $2 ORDER BY id LIMIT $3",
        namespace,
        after,
        limit,
    )
    return [row["id"] for row in rows]


async def _shown(rows: AsyncIterator[Any], limit: int) -> tuple[list[Any], bool]:
    """Return the rows of a page, and whether they are the last."""
    shown: list[Any] = []
    chars = 0
    async for row in rows:
        if len(shown) == limit or chars > MAX_PAGE_CHARS:
            return shown, False
        shown.append(row)
        chars += len(row["content"])
    return shown, True


async def export_page(
    conn: Connection, context: ReadContext, selection: ExportSelection, *, after: int, limit: int
) -> ExportPage:
    """Return live entries in the order of the transactions that changed them, after transaction `after`.

    All rows of a transaction are on the same page. A page never ends at a transaction that may still be
    running, because its later rows would be missed.
    """
    now, faults = context
    oldest_running = await conn.fetchval(_OLDEST_RUNNING)
    parameters = Parameters()
    condition = _selected(selection, parameters, now)
    since = f"e.x > {parameters.add(str(after))}::text::xid8"
    sql = f"{SELECT_ENTRY} WHERE {since} AND {condition} ORDER BY e.x, e.seq"
    found: list[ExportRow] = []
    last, chars = after, 0
    async for row in conn.cursor(sql, *parameters, prefetch=ROWS_AT_ONCE):
        is_full = len(found) >= limit or chars > EXPORT_PAGE_CHARS
        if is_full and after < last < min(row["x"], oldest_running):
            return ExportPage(tuple(found), last)
        last = row["x"]
        try:
            exported = await _exported(conn, row, selection, faults)
        except StorageCorrupt:
            faults.record("entry", row["id"])
            continue
        found.append(exported)
        chars += sum(len(version.content) for version in (exported.entry, *exported.versions))
    return ExportPage(tuple(found), None)


def _selected(selection: ExportSelection, parameters: Parameters, now: int) -> str:
    parts = ["e.live", f"(e.expires IS NULL OR e.expires > {parameters.add(now)})"]
    for column, names in (("namespace", selection.namespaces), ("collection", selection.collections)):
        if names:
            parts.append(f"e.{column} = ANY ({parameters.add(list(names))}::text[])")
    if selection.since is not None:
        parts.append(f"e.updated >= {parameters.add(selection.since)}")
    return " AND ".join(parts)


async def _exported(conn: Connection, row: Any, selection: ExportSelection, faults: Faults) -> ExportRow:
    entry = verified(row)
    spans = await conn.fetch(
        "SELECT id, start_at, end_at FROM chunks WHERE entry = $1 AND cue = 0 ORDER BY ordinal", row["seq"]
    )
    older: Sequence[Any] = ()
    if selection.with_history:
        older = await conn.fetch(
            f"{SELECT_ENTRY} WHERE e.id = $1 AND NOT e.live ORDER BY e.version", entry.id
        )
    return ExportRow(
        entry=entry,
        versions=tuple(faults.undamaged(older, verified, "id")),
        chunks=tuple((start, end) for _, start, end in spans),
        vectors=await _vectors(conn, [row[0] for row in spans]) if selection.with_vectors else None,
    )


async def _vectors(conn: Connection, chunks: Sequence[int]) -> ExportedVectors | None:
    """Return the vectors of the active space, or None without one."""
    space = await conn.fetchrow(_ACTIVE)
    if space is None:
        return None
    rows = await conn.fetch(
        f"SELECT chunk, embedding FROM vec_{space['id']:d} WHERE chunk = ANY ($1::bigint[])",  # noqa: S608 - a number
        list(chunks),
    )
    stored = {row[0]: row[1].tobytes() for row in rows}
    return ExportedVectors(json.loads(space["fingerprint"]), tuple(stored.get(chunk) for chunk in chunks))
