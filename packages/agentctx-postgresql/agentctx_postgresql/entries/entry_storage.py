"""Save, read and remove entries, and read them for export."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from agentctx.storage.audit import IMPORT, SAVE
from agentctx.storage.entries import SWEEP_STEP, ErasureListener, ExportPage, ExportSelection, ImportOptions
from agentctx.storage.records import Change, Draft, Entry, IdempotencyKey, Revision, SaveOutcome
from agentctx.storage.search import Filter
from agentctx.storage.versions import WriteOptions, is_expired
from agentctx_postgresql import locks
from agentctx_postgresql.audit.chains import PostgresqlAudit
from agentctx_postgresql.connections import PostgresqlConnections, PostgresqlPart, Work, queries
from agentctx_postgresql.entries import lookup, new_versions, save_groups, saving, transfer
from agentctx_postgresql.entries.save_groups import Creation, SaveGroups
from agentctx_postgresql.erasures import discard_old
from agentctx_postgresql.search import terms

BUILT_INLINE: Final = 8_000
"""Up to this many characters, the rows of a group are built in the event loop: a thread would cost more."""
MS_PER_HOUR: Final = 3_600_000


class PostgresqlEntries(PostgresqlPart):
    """`EntryStorage` on a PostgreSQL server."""

    ids_of = queries(lookup.ids_of)

    def __init__(
        self,
        connections: PostgresqlConnections,
        trail: PostgresqlAudit,
        *,
        idempotency_hours: int,
        max_versions: int,
    ) -> None:
        super().__init__(connections)
        self._trail = trail
        self._idempotency_ms = idempotency_hours * MS_PER_HOUR
        self._max_versions = max_versions
        self.groups = SaveGroups(self._create)
        self.on_erased(terms.drop_copies)

    async def save(
        self,
        draft: Draft,
        *,
        embed: bool,
        if_version: int | None = None,
        idempotency: IdempotencyKey | None = None,
        revision: Revision | None = None,
    ) -> SaveOutcome:
        options = self._options(SAVE, draft.principal, embed, idempotency)
        if save_groups.is_creation(draft, if_version):
            saved = await self.groups.save(Creation(draft, options))
            if saved is not None:
                return saved
        save = partial(saving.save, draft=draft, options=options, if_version=if_version, revision=revision)
        if draft.key is None:
            return await self._write(save)
        begin = locks.begin_with_key(draft.namespace, draft.collection, draft.key)
        return await self._write(save, begin=begin)

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        embed: bool,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> SaveOutcome:
        revise = partial(
            saving.revise,
            entry_id=entry_id,
            revision=revision,
            options=self._options(SAVE, principal, embed),
            if_version=if_version,
        )
        return await self._write(revise)

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        found = await self.db.query(
            partial(lookup.get, entry_id=entry_id, now=self.db.clock(), version=version)
        )
        return found[1] if found else None

    async def namespace_of(self, entry_id: str) -> str | None:
        return await self.db.query(partial(lookup.namespace_of, entry_id=entry_id, now=self.db.clock()))

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None:
        found = await self.db.query(partial(lookup.find, namespace=namespace, collection=collection, key=key))
        return None if found is None or is_expired(found[1], self.db.clock()) else found[1]

    async def find_by_prefix(self, namespace: str, collection: str, prefix: str) -> Entry | None:
        look_up = partial(lookup.find_by_prefix, namespace=namespace, collection=collection, prefix=prefix)
        found = await self.db.query(partial(look_up, now=self.db.clock()))
        return found[1] if found else None

    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        page = partial(lookup.history, entry_id=entry_id, limit=limit, before=before, faults=self.db.faults)
        return await self.db.read(partial(page, now=self.db.clock()))

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: str | None = None, with_content: bool = True
    ) -> tuple[list[Entry], str | None]:
        page = partial(
            lookup.page,
            wanted=wanted,
            now=self.db.clock(),
            limit=limit,
            before=before,
            with_content=with_content,
            faults=self.db.faults,
        )
        return await self.db.read(page)

    async def count_by_namespace(self) -> Mapping[str, int]:
        return await self.db.read(partial(lookup.count_by_namespace, now=self.db.clock()))

    async def delete(
        self,
        entry_id: str,
        *,
        if_version: int | None = None,
        principal: int | None = None,
        is_audited: bool = True,
    ) -> int:
        delete = partial(
            saving.delete,
            entry_id=entry_id,
            now=self.db.clock(),
            if_version=if_version,
            principal=principal,
            is_audited=is_audited,
        )
        return await self.db.write(
            delete,
            lambda _: self.db.erasures.note_deletion([entry_id]),
            begin=locks.BEGIN_SHARING_SPACES,
        )

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        now = self.db.clock()
        sweep = partial(saving.sweep, now=now, forget_before=now - self._idempotency_ms, limit=limit)
        removed = await self.db.write(sweep, self._note_removed)
        await self.db.write(discard_old)
        return len(removed)

    def on_erased(self, listener: ErasureListener) -> None:
        self.db.erasures.listeners.append(listener)

    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        page = partial(transfer.page, selection=selection, after=after, limit=limit, faults=self.db.faults)
        return await self.db.read(partial(page, now=self.db.clock()))

    async def import_entry(self, draft: Draft, wanted: ImportOptions, *, embed: bool) -> SaveOutcome:
        options = self._options(IMPORT, draft.principal, embed)
        import_entry = partial(transfer.import_entry, draft=draft, wanted=wanted, options=options)
        return await (self.db.read if wanted.dry_run else self._write)(import_entry)

    async def _create(self, group: Sequence[Creation]) -> Sequence[SaveOutcome | None]:
        is_short = sum(len(each.draft.content) for each in group) <= BUILT_INLINE
        new = save_groups.build(group) if is_short else await asyncio.to_thread(save_groups.build, group)
        write = partial(save_groups.write, new=new)
        return await self.db.write_statement(write, partial(new_versions.find_group, new=new))

    async def _write(
        self, save: Work[SaveOutcome], *, begin: str = locks.BEGIN_SHARING_SPACES
    ) -> SaveOutcome:
        return await self.db.write(save, self._announce, begin=begin)

    def _options(
        self, kind: str, principal: int | None, embed: bool, key: IdempotencyKey | None = None
    ) -> WriteOptions:
        audited = self._trail.audited(kind, principal)
        return WriteOptions(self.db.clock(), embed, audited, key, self._max_versions, self.db.daemon)

    def _announce(self, saved: SaveOutcome) -> None:
        """Drop copies of entries that the save erased, and of a version whose successor is in quarantine."""
        if saved.erased:
            self.db.erasures.note_deletion(saved.erased)
        if saved.quarantined and saved.change is not Change.CREATED:
            self.db.erasures.note_quarantined([saved.id])

    def _note_removed(self, removed: Sequence[str]) -> None:
        if removed:
            self.db.erasures.note_deletion(removed)
