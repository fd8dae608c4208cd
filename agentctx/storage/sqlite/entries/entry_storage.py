"""`EntryStorage` on the SQLite file."""

from __future__ import annotations

from agentctx.storage.audit import AuditStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.sqlite.connections import SqlitePart, looks_up, reads
from agentctx.storage.sqlite.entries import lookup
from agentctx.storage.sqlite.statements import SqliteFollower


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
    export_page = looks_up(lookup.export_page)

    def __init__(self, follower: SqliteFollower, audit: AuditStorage, **kept: int) -> None:
        SqlitePart.__init__(self, follower.db)
        EntryStorage.__init__(self, follower, audit, **kept)
