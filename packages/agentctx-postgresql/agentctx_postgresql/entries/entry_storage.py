"""`EntryStorage` on a PostgreSQL server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentctx.storage import saving
from agentctx.storage.audit import AuditStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.ids import new_id
from agentctx.storage.records import Draft, EntryKey, SaveOutcome
from agentctx.storage.versions import SaveCommand, Times
from agentctx_postgresql import locks
from agentctx_postgresql.connections import PostgresqlPart, looks_up, queries
from agentctx_postgresql.entries import lookup, new_versions, save_groups
from agentctx_postgresql.entries.save_groups import SaveGroups
from agentctx_postgresql.search import terms
from agentctx_postgresql.statements import PostgresqlFollower, follow

BUILT_INLINE: Final = 8_000
"""Up to this many characters, the rows of a group are built in the event loop: a thread would cost more."""


class PostgresqlEntries(PostgresqlPart, EntryStorage):
    """New entries without a key are written in groups, by one statement each."""

    get = looks_up(lookup.entry)
    namespace_of = looks_up(lookup.namespace_of)
    find = looks_up(lookup.entry_by_key)
    find_by_prefix = looks_up(lookup.find_by_prefix)
    history = looks_up(lookup.history, in_snapshot=True)
    list_entries = looks_up(lookup.page, in_snapshot=True)
    count_by_namespace = looks_up(lookup.count_by_namespace)
    ids_of = queries(lookup.ids_of)
    export_page = looks_up(lookup.export_page, in_snapshot=True)

    def __init__(self, follower: PostgresqlFollower, audit: AuditStorage, **kept: int) -> None:
        PostgresqlPart.__init__(self, follower.db)
        EntryStorage.__init__(self, follower, audit, **kept)
        self.groups = SaveGroups(self._create)
        self.on_erased(terms.drop_copies)

    async def _save(self, command: SaveCommand, draft: Draft) -> SaveOutcome:
        if save_groups.is_creation(draft, command.if_version):
            times = Times(command.now, command.now, command.now)
            new = saving.InsertVersion(command, draft, new_id(command.now, draft.namespace), times)
            saved = await self.groups.save(new)
            if saved is not None:
                return saved
        key = EntryKey.of(draft)
        begin = locks.begin_with_key(*key) if key else locks.BEGIN_SHARING_SPACES
        steps = partial(saving.save, command, draft)
        return await self.db.write(lambda conn: follow(conn, steps()), self._announce, begin=begin)

    async def _create(self, group: Sequence[saving.InsertVersion]) -> Sequence[SaveOutcome | None]:
        is_short = sum(len(each.draft.content) for each in group) <= BUILT_INLINE
        built = map(new_versions.build, group)
        new = list(built) if is_short else await asyncio.to_thread(list, built)
        write = partial(save_groups.write, new=new)
        return await self.db.write_statement(write, partial(new_versions.find_group, new=new))
