"""Look up live entries, pages, histories and exports. Every function runs inside the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

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
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.vec0 import for_lookups
from agentctx.storage.filters import LAST_CHARACTER
from agentctx.storage.ids import is_id
from agentctx.storage.quarantine import WAITS
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.entries.rows import (
    CONTENT,
    ID,
    SELECT_ENTRY,
    SELECT_HEAD,
    VERSION,
    verified,
)
from agentctx.storage.sqlite.search.filters import entry_condition
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.supersession import NOT_SUPERSEDED, FindNamed
from agentctx.storage.versions import is_expired

MAX_ROW = 2**63 - 1
_LOOK_UP = """SELECT 1 FROM entries INDEXED BY {index}
    WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)"""
_LOOK_UPS = tuple(_LOOK_UP.format(index=index) for index in ("entries_live_id", "sqlite_autoindex_entries_1"))

_WITH_ID = f"{SELECT_ENTRY} WHERE e.live = 1 AND e.namespace = ? AND e.id = ?"
_WITH_KEY = f"{SELECT_ENTRY} WHERE e.live = 1 AND e.namespace = ? AND e.key = ?"
_ACTIVE = "SELECT id, fingerprint FROM spaces WHERE state = 'active' AND dimension IS NOT NULL"
_COUNTS = f"""SELECT namespace, SUM(entries) FROM (
      SELECT namespace, COUNT(*) AS entries FROM entries WHERE live = 1 GROUP BY namespace
      UNION ALL SELECT namespace, -1 FROM (
        SELECT id, namespace FROM entries WHERE live = 1 AND expires IS NOT NULL AND expires <= ?
        UNION SELECT e.id, e.namespace FROM file_states
        CROSS JOIN entries e ON e.id = file_states.entry AND e.live = 1
        WHERE file_states.state = 'withdrawn'
        UNION SELECT e.id, e.namespace FROM quarantine
        CROSS JOIN entries e ON e.id = quarantine.entry AND e.live = 1 WHERE {WAITS}
        UNION SELECT e.id, e.namespace FROM supersessions
        CROSS JOIN entries e ON e.id = supersessions.older AND e.live = 1
        WHERE NOT {NOT_SUPERSEDED.format(now="?")}))
    GROUP BY namespace HAVING SUM(entries) > 0"""  # noqa: S608 - constants
"""The index of pages has all that is counted; what is hidden is little, and found by its own indexes."""


def get(conn: Connection, entry_id: str, *, now: int, version: int | None = None) -> tuple[int, Entry] | None:
    """Return row number and entry: the live version, or the given one. Raises StorageCorrupt."""
    row = _live_row(conn, entry_id, now, version)
    if row is None:
        require_absent(conn, entry_id, now=now, version=version)
        return None
    if row[1] != entry_id:
        raise _index_damaged(entry_id)
    return row[0], verified(row)


def entry(conn: Connection, at: ReadContext, entry_id: str, version: int | None = None) -> Entry | None:
    found = get(conn, entry_id, now=at.now, version=version)
    return found[1] if found else None


def entry_by_key(
    conn: Connection, at: ReadContext, namespace: str, collection: str, key: str
) -> Entry | None:
    found = find(conn, namespace, collection, key)
    return found[1] if found and not is_expired(found[1], at.now) else None


def require_absent(conn: Connection, entry_id: str, *, now: int, version: int | None = None) -> None:
    """Raise StorageCorrupt if one of the two id indexes has a live entry that the other misses."""
    if version is None and any(conn.execute(sql, (entry_id, now)).fetchone() for sql in _LOOK_UPS):
        raise _index_damaged(entry_id)


def _index_damaged(entry_id: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"The id index is damaged at {entry_id!r}.",
        hint="Run `agentctx doctor --fix`, which rebuilds the index.",
    )


def _live_row(conn: Connection, entry_id: str, now: int, version: int | None = None) -> Any:
    which = "e.live = 1" if version is None else "e.version = ?"
    parameters = (entry_id, now) if version is None else (entry_id, now, version)
    return conn.execute(
        f"{SELECT_ENTRY} WHERE e.id = ? AND (e.expires IS NULL OR e.expires > ?) AND {which}", parameters
    ).fetchone()


def namespace_of(conn: Connection, at: ReadContext, entry_id: str) -> str | None:
    """Return the namespace of the live version, damaged or not; None if there is none."""
    row = conn.execute(
        "SELECT namespace FROM entries WHERE id = ? AND live = 1 AND (expires IS NULL OR expires > ?)",
        (entry_id, at.now),
    ).fetchone()
    if row is None:
        require_absent(conn, entry_id, now=at.now)
        return None
    return str(row[0])


def find(conn: Connection, namespace: str, collection: str, key: str) -> tuple[int, Entry] | None:
    """Return row number and live entry of this key, expired or not."""
    row = conn.execute(
        f"{SELECT_ENTRY} WHERE e.namespace = ? AND e.collection = ? AND e.key = ? AND e.live = 1",
        (namespace, collection, key),
    ).fetchone()
    if row is None:
        return None
    seq, entry = row[0], verified(row)
    if (entry.namespace, entry.collection, entry.key) != (namespace, collection, key):
        raise _index_damaged(entry.id)
    return seq, entry


def find_named(conn: Connection, wanted: FindNamed) -> list[Entry]:
    select = _WITH_ID if is_id(wanted.name) else _WITH_KEY
    rows = conn.execute(select, (wanted.namespace, wanted.name))
    return [verified(row) for row in rows.fetchall()]


def find_by_prefix(
    conn: Connection, at: ReadContext, namespace: str, collection: str, prefix: str
) -> Entry | None:
    """Return the live entry of the first key that begins with the prefix."""
    row = conn.execute(
        f"""{SELECT_ENTRY} WHERE e.namespace = ? AND e.collection = ? AND e.key >= ? AND e.key < ?
            AND e.live = 1 AND (e.expires IS NULL OR e.expires > ?) ORDER BY e.key LIMIT 1""",
        (namespace, collection, prefix, prefix + LAST_CHARACTER, at.now),
    ).fetchone()
    return None if row is None else verified(row)


def page(
    conn: Connection,
    at: ReadContext,
    wanted: Filter,
    *,
    limit: int,
    before: str | None = None,
    with_content: bool = True,
) -> tuple[list[Entry], str | None]:
    """Return up to `limit` entries, newest first, below the id `before`; and the `before` of the next page.

    An edit does not move an entry, so that a walk over the pages misses none that stays.

    A page ends early after `MAX_PAGE_CHARS` of content. Damaged entries are left out.
    """
    condition = entry_condition(wanted, now=at.now)
    select = SELECT_ENTRY if with_content else SELECT_HEAD
    rows = conn.execute(
        f"{select} WHERE {condition.sql} AND e.id < ? ORDER BY e.id DESC LIMIT ?",
        (*condition.parameters, LAST_CHARACTER if before is None else before, limit + 1),
    )
    shown, is_last = _shown(rows, limit)
    read = partial(verified, with_content=with_content)
    return at.faults.undamaged(shown, read, ID), None if is_last else shown[-1][ID]


def count_by_namespace(conn: Connection, at: ReadContext) -> dict[str, int]:
    """Return how many entries a page without other conditions would show, by namespace."""
    return dict(conn.execute(_COUNTS, (at.now, at.now)))


def ids_of(conn: Connection, namespace: str, *, after: str, limit: int) -> list[str]:
    """Return the first ids above `after` of live entries, in whatever state."""
    rows = conn.execute(
        "SELECT id FROM entries WHERE namespace = ? AND live = 1 AND id > ? ORDER BY id LIMIT ?",
        (namespace, after, limit),
    )
    return [row[0] for row in rows]


def _shown(rows: Iterable[Any], limit: int) -> tuple[list[Any], bool]:
    """Return the rows of a page, and whether they are the last."""
    shown: list[Any] = []
    chars = 0
    for row in rows:
        if len(shown) == limit or chars > MAX_PAGE_CHARS:
            return shown, False
        shown.append(row)
        chars += len(str(row[CONTENT]))
    return shown, True


def history(
    conn: Connection, at: ReadContext, entry_id: str, *, limit: int, before: int | None = None
) -> tuple[list[Entry], int | None]:
    """Return up to `limit` versions older than `before`, newest first, and the `before` of the next page.

    Empty if the live version has expired. Like a `page`, it can end early, and omits damaged versions.
    """
    if _live_row(conn, entry_id, at.now) is None:
        return [], None
    rows = conn.execute(
        f"{SELECT_ENTRY} WHERE e.id = ? AND e.version < ? ORDER BY e.version DESC LIMIT ?",
        (entry_id, MAX_ROW if before is None else before, limit + 1),
    )
    shown, is_last = _shown(rows, limit)
    return at.faults.undamaged(shown, verified, ID), None if is_last else shown[-1][VERSION]


def export_page(
    conn: Connection, context: ReadContext, selection: ExportSelection, *, after: int, limit: int
) -> ExportPage:
    """Return live entries after row `after`, oldest first, at most `limit`.

    Damaged chunks are left out.
    """
    now, faults = context
    condition, parameters = _selected(selection, now)
    rows = conn.execute(
        f"{SELECT_ENTRY} WHERE e.seq > ? AND {condition} ORDER BY e.seq LIMIT ?",
        (after, *parameters, limit + 1),
    )
    found: list[ExportRow] = []
    last, chars = after, 0
    for row in rows:
        if len(found) == limit or chars > EXPORT_PAGE_CHARS:
            return ExportPage(tuple(found), last)
        last = row[0]
        try:
            exported = _exported(conn, row, selection, faults)
        except StorageCorrupt:
            faults.record("entry", row[1])
            continue
        found.append(exported)
        chars += sum(len(version.content) for version in (exported.entry, *exported.versions))
    return ExportPage(tuple(found), None)


def _selected(selection: ExportSelection, now: int) -> tuple[str, list[Any]]:
    parts = ["e.live = 1", "(e.expires IS NULL OR e.expires > ?)"]
    values: list[Any] = [now]
    for column, names in (("namespace", selection.namespaces), ("collection", selection.collections)):
        if names:
            parts.append(f"e.{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 - a constant
            values.append(json.dumps(names))
    if selection.since is not None:
        parts.append("e.updated >= ?")
        values.append(selection.since)
    return " AND ".join(parts), values


def _exported(conn: Connection, row: Any, selection: ExportSelection, faults: Faults) -> ExportRow:
    entry = verified(row)
    spans = conn.execute(
        "SELECT id, start_at, end_at FROM chunks WHERE entry = ? AND cue = 0 ORDER BY ordinal", (row[0],)
    ).fetchall()
    older: Iterable[Any] = ()
    if selection.with_history:
        older = conn.execute(f"{SELECT_ENTRY} WHERE e.id = ? AND e.live = 0 ORDER BY e.version", (entry.id,))
    return ExportRow(
        entry=entry,
        versions=tuple(faults.undamaged(older, verified, ID)),
        chunks=tuple((start, end) for _, start, end in spans),
        vectors=_vectors(conn, [chunk for chunk, _, _ in spans]) if selection.with_vectors else None,
    )


def _vectors(conn: Connection, chunks: Sequence[int]) -> ExportedVectors | None:
    """Return the vectors of the active space; None without one."""
    space = conn.execute(_ACTIVE).fetchone()
    if space is None:
        return None
    select = f"SELECT embedding FROM {for_lookups(conn, SpaceIndex(space[0]).table)} WHERE id = ?"  # noqa: S608 - quoted
    found = [conn.execute(select, (chunk,)).fetchone() for chunk in chunks]
    return ExportedVectors(json.loads(space[1]), tuple(bytes(row[0]) if row else None for row in found))
