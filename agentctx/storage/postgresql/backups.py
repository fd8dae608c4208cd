"""`BackupStorage` without backups: a dump of the server has everything."""

from __future__ import annotations

from pathlib import Path

from agentctx.config.schema import shown_url
from agentctx.errors import StorageFailed
from agentctx.storage.backups import Backup
from agentctx.storage.postgresql.connections import PostgresqlPart


class PostgresqlBackups(PostgresqlPart):
    """`BackupStorage` on a PostgreSQL server."""

    async def write(self, target: Path) -> Backup:  # noqa: ARG002 - nothing is written
        """Raises StorageFailed: backups of the server are its operator's."""
        raise StorageFailed(
            "Backups of a PostgreSQL server are its operator's.",
            hint=f"Run `pg_dump -Fc -d '{shown_url(self.db.server.url)}' -f FILE`, or use the server's own.",
        )
