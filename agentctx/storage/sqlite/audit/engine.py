"""`AuditStorage` on the SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from agentctx.errors import StorageFailed
from agentctx.sqlite.driver import Connection, Error, open_connection, translated
from agentctx.storage.audit import AuditedChange, ChainVerdict, Event, Head
from agentctx.storage.backups import Backup
from agentctx.storage.sqlite.audit import chain
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, reads

VERIFY_TIMEOUT_S: Final = 60.0


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
            chain.note_config,
            kind=kind,
            digests=digests,
            detail=detail,
            only_changes=only_changes,
            now=self.db.clock(),
        )

    page = reads(chain.page)
    verify = reads(chain.verify, timeout_s=VERIFY_TIMEOUT_S)

    async def prune(self, *, before: int, keep: int) -> int:
        return await self.db.write(chain.prune, before=before, keep=keep, now=self.db.clock())


def verify_file(path: Path, noted: Head | None = None) -> ChainVerdict:
    """Verify the chain in a database or a backup, opened read-only. Blocks.

    Raises:
        StorageFailed: the file is missing or damaged, or has no chained trail.
    """
    if not path.is_file():
        raise StorageFailed(f"File {path} does not exist.", hint="Give an agentctx database or backup.")
    try:
        with closing(open_connection(path, readonly=True)) as connection:
            connection.execute("BEGIN")  # one snapshot for everything
            return chain.verify(connection, noted)
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
            if chain.is_chained(connection):
                detail = {"backup": backup.digest, "made": backup.made, "entries": backup.entries}
                chain.record(connection, "restore", principal=os.geteuid(), now=now, detail=detail)
            connection.execute("COMMIT")
    except Error as error:
        raise translated(error, "the restore could not be recorded") from error


def _add(conn: Connection, events: Sequence[Event], now: int) -> None:
    for event in events:
        chain.record(
            conn,
            event.kind,
            event.subject,
            principal=event.principal,
            now=now if event.at is None else event.at,
            namespace=event.namespace,
            detail=event.detail,
        )
