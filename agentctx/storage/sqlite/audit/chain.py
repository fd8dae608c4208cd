"""The audit trail. Functions that take a connection run inside the transaction of the recorded change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from agentctx.errors import StorageFailed
from agentctx.storage import audit as trail
from agentctx.storage.audit import AuditedChange, AuditQuery, AuditRow, ChainVerdict, Event, Head
from agentctx.storage.backups import Backup
from agentctx.storage.file.driver import Connection, Error, open_connection, translated
from agentctx.storage.file.migrate import usable_schema
from agentctx.storage.records import Change, Draft
from agentctx.storage.sqlite import installation
from agentctx.storage.sqlite.connections import SqlitePart, reads

MIN_PRUNED: Final = 1_000
"""With fewer excess rows than this, pruning waits until the oldest is a day overdue."""
LAST_TIME: Final = 253_402_300_799_999
"""The end of the year 9999, in milliseconds; a later time is damage."""
VERIFY_TIMEOUT_S: Final = 60.0

_COLUMNS: Final = ", ".join(AuditRow._fields)
_INSERT: Final = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - constants
_SELECT: Final = f"SELECT {_COLUMNS} FROM audit"  # noqa: S608 - constants
_TYPES: Final = (int, int, str, int, str, str, str, bytes, bytes)
_NEUTRAL: Final = AuditRow(0, 0, "", None, None, None, "", b"", b"")


def record(conn: Connection, event: Event, *, now: int) -> None:
    """Add a row. Its detail must contain nothing that may have to be forgotten: no key, text or question."""
    head = _head(conn)
    if head is None:
        installation.secret(conn)  # so that a start notices if one of the two is lost
        head = Head(0, b"")
    row = trail.next_row(head, event, now=now)
    if not conn.execute(_INSERT, row).rowcount:
        # Rows were added by hand: this must be noticed later, but must not stop saves.
        row = trail.next_row(head._replace(seq=installation.last_audit_seq(conn)), event, now=now)
        conn.execute(_INSERT, row)
    installation.remember(conn, installation.AUDIT_HEAD, installation.encode_head(Head(row.seq, row.hash)))


def note_change(
    conn: Connection,
    audited: AuditedChange | None,
    draft: Draft,
    entry_id: str,
    version: int,
    change: Change,
    *,
    now: int,
) -> None:
    """Record the change of an entry, unless `audited` is None."""
    if audited is not None:
        record(conn, trail.change_of_entry(audited, draft, entry_id, version, change, at=now), now=now)


def page(conn: Connection, wanted: AuditQuery) -> list[AuditRow]:
    """Return a page of rows, newest first."""
    given = {"seq < ?": wanted.before, "kind = ?": wanted.kind, "subject = ?": wanted.subject}
    conditions = {sql: value for sql, value in given.items() if value is not None}
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = conn.execute(
        f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?",
        (*conditions.values(), wanted.limit),
    )
    return [_readable(row) for row in rows]


def verify(conn: Connection) -> ChainVerdict:
    """Verify the whole chain. Blocks while it is read."""
    walk = trail.ChainWalk(installation.find(conn, installation.SECRET) or b"")
    for row in conn.execute(f"{_SELECT} ORDER BY seq"):
        walk.step(AuditRow._make(row))
    walk.end(_head(conn))
    return trail.verdict_of({"": walk})


def prune(conn: Connection, *, before: int, keep: int, now: int) -> int:
    """Remove up to `PRUNE_ROWS` of the oldest rows and record it; return how many."""
    first = conn.execute(f"{_SELECT} ORDER BY seq LIMIT 1").fetchone()
    if first is None:
        return 0
    newest = (_head(conn) or Head(0, b"")).seq
    since = conn.execute("SELECT seq FROM audit WHERE at >= ? ORDER BY seq LIMIT 1", (before,)).fetchone()
    beyond = max(since[0] - 1 if since else newest, newest - keep)
    through = trail.prune_through(_readable(first), beyond, before=before, least=MIN_PRUNED)
    if through is None:
        return 0
    last = conn.execute(f"{_SELECT} WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (through,)).fetchone()
    conn.execute(
        """INSERT OR IGNORE INTO forgotten (entry, at)
           SELECT subject, CASE WHEN typeof(at) = 'integer' THEN at ELSE 0 END
           FROM audit WHERE kind = 'forget' AND typeof(subject) = 'text' AND seq <= ?""",
        (through,),
    )
    removed = int(conn.execute("DELETE FROM audit WHERE seq <= ?", (through,)).rowcount)
    record(conn, trail.pruning(_readable(last), removed), now=now)
    return removed


def _head(conn: Connection) -> Head | None:
    value = installation.find(conn, installation.AUDIT_HEAD)
    return None if value is None else installation.decode_head(value)


def _readable(stored: Sequence[Any]) -> AuditRow:
    """Replace values of a wrong type by neutral ones; only `verify` must see the damage."""
    given = zip(stored, _TYPES, _NEUTRAL, strict=True)
    row = AuditRow._make(value if isinstance(value, kind) else neutral for value, kind, neutral in given)
    return row if 0 <= row.at <= LAST_TIME else row._replace(at=0)


class SqliteAudit(SqlitePart, trail.AuditStorage):
    """The audit trail in the SQLite file."""

    page = reads(page)
    verify = reads(verify, timeout_s=VERIFY_TIMEOUT_S)

    async def add(self, events: Sequence[Event]) -> None:
        await self.db.write(_add, events=events, now=self.db.clock())

    async def prune(self, *, before: int, keep: int) -> int:
        return await self.db.write(prune, before=before, keep=keep, now=self.db.clock())


def _add(conn: Connection, events: Sequence[Event], now: int) -> None:
    for event in events:
        record(conn, event, now=now)


def verify_file(path: Path) -> ChainVerdict:
    """Verify the chain in a database or a backup, opened read-only. Blocks.

    Raises:
        StorageFailed: the file is missing or damaged, or has no chained trail.
        SchemaTooNew, SchemaTooOld, SchemaForeign: as `usable_schema`.
    """
    if not path.is_file():
        raise StorageFailed(f"File {path} does not exist.", hint="Give an agentctx database or backup.")
    usable_schema(path)
    try:
        with closing(open_connection(path, readonly=True)) as connection:
            connection.execute("BEGIN")  # one snapshot for everything
            return verify(connection)
    except Error as error:
        raise translated(error, f"{path} has no audit trail that can be read") from error


def record_restore(database: Path, backup: Backup, *, now: int) -> None:
    """Record in a database's trail that it was restored. Blocks; the caller holds the lock of the folder.

    Raises:
        StorageFailed: the disk fails; the database is unchanged.
    """
    try:
        with closing(open_connection(database)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            detail = {"backup": backup.digest, "made": backup.made, "entries": backup.entries}
            record(connection, Event(kind="restore", principal=os.geteuid(), detail=detail), now=now)
            connection.execute("COMMIT")
    except Error as error:
        raise translated(error, "the restore could not be recorded") from error
