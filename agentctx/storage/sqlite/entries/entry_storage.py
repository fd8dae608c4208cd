"""Saving, reading and removing entries, and reading them for export."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from agentctx.storage.audit import IMPORT, SAVE
from agentctx.storage.entries import SWEEP_STEP, ErasureListener, ExportPage, ExportSelection, ImportOptions
from agentctx.storage.records import Change, Draft, Entry, IdempotencyKey, Revision, SaveOutcome
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.audit.chain import SqliteAudit
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, reads
from agentctx.storage.sqlite.entries import lookup, saving, transfer
from agentctx.storage.sqlite.search import filters
from agentctx.storage.versions import WriteOptions, is_expired

MS_PER_HOUR: Final = 3_600_000


class SqliteEntries(SqlitePart):
    """`EntryStorage` on the SQLite file."""

    ids_of = reads(lookup.ids_of)

    def __init__(
        self,
        connections: SqliteConnections,
        audit: SqliteAudit,
        *,
        idempotency_hours: int,
        max_versions: int,
    ) -> None:
        super().__init__(connections)
        self._audit = audit
        self._idempotency_ms = idempotency_hours * MS_PER_HOUR
        self._max_versions = max_versions

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
        save = partial(saving.save, draft=draft, options=options, if_version=if_version, revision=revision)
        with self.db.tidying.note_if_cancelled():
            saved = await self.db.writer.run(save)
        return self._announced(saved)

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        embed: bool,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> SaveOutcome:
        saved = await self.db.write(
            saving.revise,
            entry_id=entry_id,
            revision=revision,
            options=self._options(SAVE, principal, embed),
            if_version=if_version,
        )
        return self._announced(saved)

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        found = await self.db.read(lookup.get, entry_id=entry_id, now=self.db.clock(), version=version)
        return found[1] if found else None

    async def namespace_of(self, entry_id: str) -> str | None:
        return await self.db.read(lookup.namespace_of, entry_id=entry_id, now=self.db.clock())

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None:
        found = await self.db.read(lookup.find, namespace=namespace, collection=collection, key=key)
        return None if found is None or is_expired(found[1], self.db.clock()) else found[1]

    async def find_by_prefix(self, namespace: str, collection: str, prefix: str) -> Entry | None:
        found = await self.db.read(
            lookup.find_by_prefix,
            namespace=namespace,
            collection=collection,
            prefix=prefix,
            now=self.db.clock(),
        )
        return found[1] if found else None

    async def history(
        self, entry_id: str, *, limit: int, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        now, faults = self.db.clock(), self.db.faults
        return await self.db.read(
            lookup.history, entry_id=entry_id, limit=limit, before=before, faults=faults, now=now
        )

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: str | None = None, with_content: bool = True
    ) -> tuple[list[Entry], str | None]:
        condition = filters.entry_condition(wanted, now=self.db.clock())
        return await self.db.read(
            lookup.page,
            condition=condition,
            limit=limit,
            before=before,
            with_content=with_content,
            faults=self.db.faults,
        )

    async def count_by_namespace(self) -> Mapping[str, int]:
        return await self.db.read(lookup.count_by_namespace, now=self.db.clock())

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
        with self.db.tidying.note_if_cancelled([entry_id]):
            removed = await self.db.writer.run(delete)
        self.db.tidying.note_deletion([entry_id])
        return removed

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        now = self.db.clock()
        sweep = partial(saving.sweep, now=now, forget_before=now - self._idempotency_ms, limit=limit)
        removed = await self.db.writer.run(sweep)
        if removed:
            self.db.tidying.note_deletion(removed)
        return len(removed)

    async def export_page(self, selection: ExportSelection, *, after: int, limit: int) -> ExportPage:
        return await self.db.read(
            transfer.page,
            selection=selection,
            now=self.db.clock(),
            after=after,
            limit=limit,
            faults=self.db.faults,
        )

    async def import_entry(self, draft: Draft, wanted: ImportOptions, *, embed: bool) -> SaveOutcome:
        options = self._options(IMPORT, draft.principal, embed)
        import_entry = partial(transfer.import_entry, draft=draft, wanted=wanted, options=options)
        if wanted.dry_run:
            return await self.db.readers.run(import_entry)
        with self.db.tidying.note_if_cancelled():
            saved = await self.db.writer.run(import_entry)
        return self._announced(saved)

    def _options(
        self, kind: str, principal: int | None, embed: bool, key: IdempotencyKey | None = None
    ) -> WriteOptions:
        audited = self._audit.audited(kind, principal)
        return WriteOptions(self.db.clock(), embed, audited, key, self._max_versions)

    def _announced(self, saved: SaveOutcome) -> SaveOutcome:
        """Drop in-memory copies of erased entries, and of a version whose successor is in quarantine."""
        if saved.erased:
            self.db.tidying.note_deletion(saved.erased)
        if saved.quarantined and saved.change is not Change.CREATED:
            self.db.tidying.note_quarantined([saved.id])
        return saved

    def on_erased(self, listener: ErasureListener) -> None:
        self.db.tidying.listeners.append(listener)
