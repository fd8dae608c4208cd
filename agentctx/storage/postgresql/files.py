"""`FileStorage` without files: those of the database are the server's."""

from __future__ import annotations

from pathlib import Path

from agentctx.errors import StorageFailed
from agentctx.storage.postgresql.connections import PostgresqlPart


class PostgresqlFiles(PostgresqlPart):
    """`FileStorage` on a PostgreSQL server."""

    @property
    def fault(self) -> StorageFailed | None:
        return self.db.fault

    @property
    def moved_to(self) -> Path | None:
        """None: there is no file that could be moved."""
        return None

    async def look(self) -> None:
        """Nothing: there is no file to be removed."""

    async def keep_reserve(self) -> None:
        """Nothing: the disk is the server's."""
