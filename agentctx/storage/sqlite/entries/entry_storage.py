"""`EntryStorage` on the SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentctx.storage.audit import AuditStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, looks_up, reads
from agentctx.storage.sqlite.entries import lookup, transfer
from agentctx.storage.sqlite.statements import follow
from agentctx.storage.steps import Steps

T = TypeVar("T")


class SqliteEntries(SqlitePart, EntryStorage):
    """Saves share a commit in the writer; reads run in the readers."""

    get = looks_up(lookup.entry)
    namespace_of = looks_up(lookup.namespace_of)
    find = looks_up(lookup.entry_by_key)
    find_by_prefix = looks_up(lookup.find_by_prefix)
    history = looks_up(lookup.history)
    list_entries = looks_up(lookup.page)
    count_by_namespace = looks_up(lookup.count_by_namespace)
    ids_of = reads(lookup.ids_of)
    export_page = looks_up(transfer.page)

    def __init__(self, connections: SqliteConnections, audit: AuditStorage, **kept: int) -> None:
        SqlitePart.__init__(self, connections)
        EntryStorage.__init__(self, connections.clock, audit, connections.tidying, "", **kept)

    async def _read(self, steps: Callable[[], Steps[T]]) -> T:
        return await self.db.readers.run(lambda conn: follow(conn, steps()))

    def _write(self, steps: Callable[[], Steps[T]], committed: Callable[[T], None]) -> Coroutine[Any, Any, T]:
        return self.db.writer.run(lambda conn: follow(conn, steps()), committed=committed)
