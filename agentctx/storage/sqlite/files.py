"""The files of the database while the daemon serves: what happens to them, and the reserve beside them."""

from __future__ import annotations

from pathlib import Path

from agentctx.errors import StorageFailed
from agentctx.storage.sqlite.connections import SqliteConnections


class SqliteFiles:
    """`FileStorage` on the SQLite file."""

    def __init__(self, connections: SqliteConnections) -> None:
        writer = connections.writer
        self._writer = writer
        self.look = writer.look_at_files
        self.keep_reserve = writer.keep_reserve

    @property
    def fault(self) -> StorageFailed | None:
        return self._writer.fault

    @property
    def moved_to(self) -> Path | None:
        return self._writer.moved_to
