"""The audit trail. Functions that take a connection run inside the transaction of the recorded change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
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
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, reads
from agentctx.storage.upkeep import RepairedRows

DAMAGE: Final = "damage"
"""Damaged rows, not of entries, that were repaired or removed."""

DAMAGE_SHOWN: Final = 20
MIN_PRUNED: Final = 1_000
"""With fewer excess rows than this, pruning waits until the oldest is a day overdue."""
LAST_TIME: Final = 253_402_300_799_999
"""The end of the year 9999, in milliseconds; a later time is damage."""
VERIFY_TIMEOUT_S: Final = 60.0

_COLUMNS: Final = ", ".join(AuditRow._fields)
_INSERT: Final = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - constants
_SELECT: Final = f"SELECT {_COLUMNS} FROM audit"  # noqa: S608 - constants


def record(conn: Connection, event: Event, *, now: int) -> None:
    """Add a row. Its detail must contain nothing that may have to be forgotten: no key, text or question."""
    _append(conn, *_state(conn), event, now=now)


def _append(conn: Connection, secret: bytes, head: Head, event: Event, *, now: int) -> None:
    row = trail.next_row(secret, head, event, now=now)
    if not conn.execute(_INSERT, row).rowcount:
        # Rows were added by hand: this must be detected later, but must not stop saves.
        row = trail.next_row(secret, Head(installation.last_audit_seq(conn), head.hash), event, now=now)
        conn.execute(_INSERT, row)
    installation.remember(conn, installation.AUDIT_HEAD, installation.encode_head(Head(row.seq, row.hash)))


def is_chained(conn: Connection) -> bool:
    """Return whether the schema has the chain; a backup may have an earlier schema."""
    row = conn.execute("SELECT 1 FROM pragma_table_info('audit') WHERE name = 'subject'").fetchone()
    return row is not None


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
        secret, head = _state(conn)
        event = trail.change_of_entry(secret, audited, draft, entry_id, version, change, at=now)
        _append(conn, secret, head, event, now=now)


def was_forgotten(conn: Connection, entry_id: str) -> bool:
    """Return whether the entry was deliberately forgotten; imports must skip it."""
    row = conn.execute(
        """SELECT EXISTS (SELECT 1 FROM audit WHERE subject = ? AND kind = 'forget')
               OR EXISTS (SELECT 1 FROM forgotten WHERE entry = ?)""",
        (entry_id, entry_id),
    ).fetchone()
    return bool(row[0])


def note_config(
    conn: Connection,
    kind: str,
    digests: Mapping[str, str],
    detail: Mapping[str, Any],
    *,
    only_changes: bool,
    now: int,
) -> None:
    """Record which settings have a different digest than last time."""
    known = installation.find(conn, installation.AUDIT_CONFIG)
    event = trail.change_of_config(kind, known, digests, detail, only_changes=only_changes)
    if event is not None:
        record(conn, event, now=now)
        installation.remember(conn, installation.AUDIT_CONFIG, trail.encode_detail(digests).encode())


def page(conn: Connection, wanted: AuditQuery) -> list[AuditRow]:
    """Return a page of rows, newest first."""
    given = {"seq < ?": wanted.before, "kind = ?": wanted.kind, "subject = ?": wanted.subject}
    conditions = {sql: value for sql, value in given.items() if value is not None}
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = conn.execute(
        f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?",
        (*conditions.values(), wanted.limit),
    )
    return [_readable(_row(row)) for row in rows]


def verify(conn: Connection, noted: Head | None = None) -> ChainVerdict:
    """Verify the whole chain. Blocks while it is read."""
    secret = installation.find(conn, installation.SECRET) or b""
    rows = map(_row, conn.execute(f"{_SELECT} ORDER BY seq"))
    return trail.verify(rows, secret=secret, head=_head(conn), noted=noted)


def known_repairs(conn: Connection) -> list[RepairedRows]:
    """Return the repairs of earlier starts, newest first, as far as their rows are kept and readable."""
    rows = conn.execute(f"{_SELECT} WHERE kind = ? ORDER BY seq DESC LIMIT ?", (DAMAGE, DAMAGE_SHOWN))
    known = (_repaired(_readable(_row(row))) for row in rows)
    return [repaired for repaired in known if repaired is not None]


def _repaired(row: AuditRow) -> RepairedRows | None:
    try:
        detail = json.loads(row.detail)
        return RepairedRows(row.at, str(detail["table"]), int(detail["rows"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def prune(conn: Connection, *, before: int, keep: int, now: int) -> int:
    """Remove up to `PRUNE_ROWS` of the oldest rows and record it; return how many."""
    first = conn.execute(f"{_SELECT} ORDER BY seq LIMIT 1").fetchone()
    if first is None:
        return 0
    oldest, (_, head) = _readable(_row(first)), _state(conn)
    beyond = _last_beyond(conn, head, before, keep)
    through = trail.prune_through(oldest, beyond, before=before, least=MIN_PRUNED)
    if through is None:
        return 0
    row = conn.execute(f"{_SELECT} WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (through,)).fetchone()
    last = _readable(_row(row))
    conn.execute(
        """INSERT OR IGNORE INTO forgotten (entry, at)
           SELECT subject, CASE WHEN typeof(at) = 'integer' THEN at ELSE 0 END
           FROM audit WHERE kind = 'forget' AND typeof(subject) = 'text' AND seq <= ?""",
        (through,),
    )
    removed = int(conn.execute("DELETE FROM audit WHERE seq <= ?", (through,)).rowcount)
    record(conn, trail.pruning(last, removed), now=now)
    return removed


def _last_beyond(conn: Connection, head: Head, before: int, keep: int) -> int:
    """Return the last row before the first one since `before`, or the last beyond the newest `keep`."""
    row = conn.execute("SELECT seq FROM audit WHERE at >= ? ORDER BY seq LIMIT 1", (before,)).fetchone()
    by_age = row[0] - 1 if row else head.seq
    return int(max(by_age, head.seq - keep))


def _state(conn: Connection) -> tuple[bytes, Head]:
    """Return the secret and the end of the chain, creating them if missing."""
    found = installation.find_all(conn, installation.SECRET, installation.AUDIT_HEAD)
    secret = found.get(installation.SECRET) or installation.secret(conn)
    head = found.get(installation.AUDIT_HEAD)
    return secret, _begin(conn, secret) if head is None else installation.decode_head(head)


def _head(conn: Connection) -> Head | None:
    value = installation.find(conn, installation.AUDIT_HEAD)
    return None if value is None else installation.decode_head(value)


def _begin(conn: Connection, secret: bytes) -> Head:
    """Chain the rows of an earlier schema, once."""
    head = Head(0, b"")
    for stored in conn.execute(f"{_SELECT} WHERE hash IS NULL ORDER BY seq").fetchall():
        row = _row(stored)._replace(previous_hash=head.hash)
        head = Head(row.seq, trail.hash_of(secret, row))
        conn.execute(
            "UPDATE audit SET previous_hash = ?, hash = ? WHERE seq = ?",
            (row.previous_hash, head.hash, row.seq),
        )
    return head


def _row(stored: Any) -> AuditRow:
    row = AuditRow._make(stored)
    return row._replace(previous_hash=row.previous_hash or b"", hash=row.hash or b"")


def _readable(row: Any) -> AuditRow:
    """Replace values of a wrong type by neutral ones; only `verify` must see the damage."""
    return AuditRow(
        seq=row.seq,
        at=row.at if isinstance(row.at, int) and 0 <= row.at <= LAST_TIME else 0,
        kind=row.kind if isinstance(row.kind, str) else "",
        principal=row.principal if isinstance(row.principal, int) else None,
        namespace=row.namespace if isinstance(row.namespace, str) else None,
        subject=row.subject if isinstance(row.subject, str) else None,
        detail=row.detail if isinstance(row.detail, str) else "",
        previous_hash=row.previous_hash if isinstance(row.previous_hash, bytes) else b"",
        hash=row.hash if isinstance(row.hash, bytes) else b"",
    )


class SqliteAudit(SqlitePart):
    """`AuditStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        super().__init__(connections)
        self.saves = True

    def audited(self, kind: str, principal: int | None) -> AuditedChange | None:
        """Return the audit event to record for a change of an entry; None if saves are not recorded."""
        return AuditedChange(kind, principal) if self.saves else None

    async def add(self, events: Sequence[Event]) -> None:
        await self.db.write(_add, events=events, now=self.db.clock())

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        await self.db.write(
            note_config,
            kind=kind,
            digests=digests,
            detail=detail,
            only_changes=only_changes,
            now=self.db.clock(),
        )

    page = reads(page)
    verify = reads(verify, timeout_s=VERIFY_TIMEOUT_S)

    async def prune(self, *, before: int, keep: int) -> int:
        return await self.db.write(prune, before=before, keep=keep, now=self.db.clock())


def verify_file(path: Path, noted: Head | None = None) -> ChainVerdict:
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
            return verify(connection, noted)
    except Error as error:
        raise translated(error, f"{path} has no audit trail that can be read") from error


def record_restore(database: Path, backup: Backup, *, now: int) -> None:
    """Record in a database's trail that it was restored. Blocks; the caller holds the lock of the folder.

    Nothing is recorded in a backup of an earlier schema, which has no place for it.

    Raises:
        StorageFailed: the disk fails; the database is unchanged.
    """
    try:
        with closing(open_connection(database)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if is_chained(connection):
                detail = {"backup": backup.digest, "made": backup.made, "entries": backup.entries}
                restore = Event(kind="restore", principal=os.geteuid(), detail=detail)
                record(connection, restore, now=now)
            connection.execute("COMMIT")
    except Error as error:
        raise translated(error, "the restore could not be recorded") from error


def _add(conn: Connection, events: Sequence[Event], now: int) -> None:
    for event in events:
        record(conn, event, now=now)
