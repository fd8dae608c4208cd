"""`Storage` on one SQLite file: which function runs in which connection."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import AgentctxError
from agentctx.sqlite import driver, migrate
from agentctx.sqlite.driver import Connection
from agentctx.sqlite.readers import Readers
from agentctx.sqlite.writer import Writer
from agentctx.storage.backups import Backup
from agentctx.storage.base import ErasureListener
from agentctx.storage.records import (
    BuriedRow,
    Census,
    Clock,
    Draft,
    Entry,
    Filter,
    IdempotencyKey,
    Job,
    Owed,
    QueueDepth,
    ResolvedChunk,
    Revision,
    SampledChunk,
    Saved,
    Space,
    SpaceFault,
    StorageStats,
    VectorHit,
    WordHit,
)
from agentctx.storage.sqlite import (
    backup,
    census,
    entries,
    filters,
    integrity,
    jobs,
    repair,
    search,
    spaces,
    transfer,
    word_index,
)
from agentctx.storage.sqlite.checksums import Faults
from agentctx.storage.sqlite.injections import SqliteInjections
from agentctx.storage.sqlite.scrub import SqliteScrub, fill_missing
from agentctx.storage.sqlite.tidying import Tidying
from agentctx.storage.sqlite.vector_index import IN_THE_FILE
from agentctx.storage.transfer import ExportPage, Selection
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import wall_clock

T = TypeVar("T")
log = structlog.get_logger("agentctx.storage")

DATABASE_NAME = "agentctx.db"
CHECK_TIMEOUT_S = 60.0
BACKUP_TIMEOUT_S = 3_600.0
MS_PER_HOUR = 3_600_000


class SqliteStorage:
    """The embedded engine. Made by `open`; `close` it."""

    vector_store: str = IN_THE_FILE

    def __init__(
        self, path: Path, writer: Writer, readers: Readers, *, clock: Clock, idempotency_hours: int
    ) -> None:
        self._path = path
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._idempotency_ms = idempotency_hours * MS_PER_HOUR
        self.injections = SqliteInjections(writer, readers, clock)
        self._one_check = asyncio.Lock()
        self._tidying = Tidying(writer)
        self.faults = Faults()
        self.scrub = SqliteScrub(writer, readers, clock, self.faults)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        readers: int = 3,
        clock: Clock = wall_clock,
        idempotency_hours: int = 24,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> SqliteStorage:
        """Open or make the database and bring its schema up to date.

        Raises:
            SchemaTooNew: a newer agentctx wrote it; it was not touched.
            DriverUnsuitable: no usable SQLite on this machine.
            StorageFailed: it is no database, or an applied migration was changed.
        """
        writer, pool = await cls._connect(path, readers=readers, clock=clock, telemetry=telemetry)
        return cls(path, writer, pool, clock=clock, idempotency_hours=idempotency_hours)

    @staticmethod
    async def _connect(
        path: Path, *, readers: int, clock: Clock, telemetry: Telemetry
    ) -> tuple[Writer, Readers]:
        await asyncio.to_thread(_migrate, path, clock)
        writer = await Writer.open(path, telemetry)
        try:
            await writer.run(fill_missing)
            pool = await Readers.open(path, readers)
            writer.recover_with(pool)
            return writer, pool
        except BaseException:
            await writer.close()
            raise

    async def turn(self) -> None:
        """Return when the writer has come around to it. Raises as a write."""
        await self._writer.turn()

    async def close(self) -> None:
        """Finish what was accepted, then close every connection. Idempotent."""
        await self._readers.close()
        await self._writer.close()

    async def save(
        self,
        draft: Draft,
        *,
        owed: bool,
        if_version: int | None = None,
        idempotency: IdempotencyKey | None = None,
        revision: Revision | None = None,
    ) -> Saved:
        save = partial(
            entries.save,
            draft=draft,
            now=self._clock(),
            owed=owed,
            if_version=if_version,
            idempotency=idempotency,
            revision=revision,
        )
        try:
            saved = await self._writer.run(save)
        except asyncio.CancelledError:
            self._tidying.note_deletion()  # it may have removed an expired entry all the same
            raise
        if saved.erased is not None:
            self._tidying.note_deletion([saved.erased])
        return saved

    async def revise(
        self, entry_id: str, revision: Revision, *, owed: bool, if_version: int | None = None
    ) -> Saved:
        return await self._writer.run(
            partial(
                entries.revise,
                entry_id=entry_id,
                revision=revision,
                now=self._clock(),
                owed=owed,
                if_version=if_version,
            )
        )

    async def get(self, entry_id: str, version: int | None = None) -> Entry | None:
        found = await self._readers.run(
            partial(entries.get, entry_id=entry_id, now=self._clock(), version=version)
        )
        return found[1] if found else None

    async def find(self, namespace: str, collection: str, key: str) -> Entry | None:
        found = await self._readers.run(
            partial(entries.find, namespace=namespace, collection=collection, key=key)
        )
        return None if found is None or entries.is_expired(found[1], self._clock()) else found[1]

    async def history(self, entry_id: str) -> list[Entry]:
        return await self._readers.run(
            partial(entries.history, entry_id=entry_id, now=self._clock(), faults=self.faults)
        )

    async def list_entries(
        self, wanted: Filter, *, limit: int, before: int | None = None, with_content: bool = True
    ) -> tuple[list[Entry], int | None]:
        condition = filters.entry_condition(wanted, now=self._clock())
        return await self._readers.run(
            partial(
                entries.page,
                condition=condition,
                limit=limit,
                before=before,
                with_content=with_content,
                faults=self.faults,
            )
        )

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        delete = partial(
            entries.delete,
            entry_id=entry_id,
            now=self._clock(),
            if_version=if_version,
            principal=principal,
        )
        try:
            removed = await self._writer.run(delete)
        except asyncio.CancelledError:
            self._tidying.note_deletion([entry_id])  # it goes on without its caller
            raise
        self._tidying.note_deletion([entry_id])
        return removed

    async def sweep(self, *, limit: int = 1_000) -> int:
        now = self._clock()
        sweep = partial(entries.sweep, now=now, forget_before=now - self._idempotency_ms, limit=limit)
        removed = await self._writer.run(sweep)
        if removed:
            self._tidying.note_deletion(removed)
        return len(removed)

    async def search_words(self, question: str, wanted: Filter, limit: int) -> list[WordHit]:
        return await self._readers.run(
            partial(search.by_words, question=question, wanted=wanted, limit=limit, now=self._clock())
        )

    async def search_vectors(self, space: int, query: Vectors, wanted: Filter, limit: int) -> list[VectorHit]:
        return await self._readers.run(
            partial(
                search.by_vector,
                space=space,
                query=query,
                wanted=wanted,
                limit=limit,
                now=self._clock(),
                faults=self.faults,
            )
        )

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        return await self._readers.run(
            partial(search.distances, space=space, query=query, chunks=chunks, faults=self.faults)
        )

    async def resolve(self, chunks: Sequence[int], wanted: Filter) -> dict[int, ResolvedChunk]:
        return await self._readers.run(
            partial(search.resolve, chunks=chunks, wanted=wanted, now=self._clock(), faults=self.faults)
        )

    async def claim(
        self,
        limit: int,
        *,
        now: int,
        lease_until: int,
        exclude: Collection[int] = (),
        space: int | None = None,
    ) -> list[Job]:
        return await self._writer.run(
            partial(
                jobs.claim, limit=limit, now=now, lease_until=lease_until, exclude=tuple(exclude), space=space
            )
        )

    async def release_leases(self, space: int | None = None) -> None:
        await self._writer.run(partial(jobs.release_leases, space=space))

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        return await self._writer.run(partial(jobs.complete, jobs=done, vectors=vectors))

    async def postpone(self, failed: Sequence[Job], *, not_before: int, error: str) -> None:
        await self._writer.run(partial(jobs.postpone, jobs=failed, not_before=not_before, error=error))

    async def bury(self, job: Job, reason: str) -> None:
        await self._writer.run(partial(jobs.bury, job=job, reason=reason))

    async def retry_buried(self) -> int:
        return await self._writer.run(jobs.retry_buried)

    async def next_due(self, now: int, space: int | None = None) -> int | None:
        return await self._readers.run(partial(jobs.next_due, now=now, space=space))

    async def depth(self) -> QueueDepth:
        return await self._readers.run(jobs.depth)

    async def buried(self, limit: int = 100) -> list[BuriedRow]:
        return await self._readers.run(partial(jobs.buried, limit=limit))

    async def spaces(self) -> list[Space]:
        return await self._readers.run(spaces.all_spaces)

    async def open_space(self, fingerprint: Mapping[str, str | int]) -> Space:
        return (await self.open_spaces([fingerprint]))[0]

    async def open_spaces(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        return await self._writer.run(
            partial(
                spaces.open_spaces,
                fingerprints=fingerprints,
                now=self._clock(),
                vector_store=self.vector_store,
            )
        )

    async def renew_space(self, space_id: int) -> Space:
        return await self._writer.run(partial(spaces.renew, space_id=space_id, now=self._clock()))

    async def prepare_space(self, space_id: int, canary: Vectors) -> Space:
        return await self._writer.run(partial(spaces.prepare, space_id=space_id, canary=canary))

    async def activate_space(self, space_id: int, *, most_owed: int | None = None) -> Space:
        return await self._removing(
            partial(spaces.activate, space_id=space_id, now=self._clock(), most_owed=most_owed)
        )

    async def retire_former(self) -> list[int]:
        return await self._removing(spaces.retire_former)

    async def approve_space(self, space_id: int) -> None:
        await self._writer.run(partial(spaces.approve, space_id=space_id, now=self._clock()))

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        await self._writer.run(partial(spaces.record_comparison, space_id=space_id, comparison=comparison))

    async def sample_chunks(self, limit: int) -> list[SampledChunk]:
        return await self._readers.run(partial(search.sample, limit=limit))

    async def disable_spaces(self) -> None:
        await self._writer.run(spaces.disable_all)

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        return await self._writer.run(
            partial(spaces.backfill, space_id=space_id, now=self._clock(), limit=limit)
        )

    async def owed(self, space_id: int) -> int:
        return await self._readers.run(partial(jobs.owed, space_id=space_id))

    async def owed_in_all(self, space_id: int) -> Owed:
        return await self._readers.run(partial(jobs.owed_in_all, space_id=space_id))

    async def check_integrity(self) -> list[str]:
        return await self._check(integrity.check_database)

    async def check_words(self) -> str | None:
        return await self._check(integrity.check_words)

    async def check_vectors(self) -> list[SpaceFault]:
        return await self._check(integrity.check_vectors)

    async def census(self) -> Census:
        return await self._check(census.take)

    async def remove_orphans(self) -> int:
        removed = 0
        for step in (
            repair.remove_orphan_vectors,
            repair.remove_orphan_jobs,
            repair.remove_orphan_chunks,
        ):
            removed += await self._repeat(step)
        if words := await self._check(repair.orphan_words):
            await self.rebuild_words()
        return removed + words

    async def owe_missing(self) -> int:
        enabled = await self._readers.run(spaces.enabled_ids)
        step = partial(spaces.backfill, now=self._clock(), limit=repair.ROWS_A_STEP)
        return sum([await self._repeat(partial(step, space_id=space)) for space in enabled])

    async def rebuild_words(self) -> int:
        await self._removing(word_index.make_empty)
        last = added = 0
        while (step := await self._writer.run(partial(repair.add_words, after=last))).added:
            last, added = step.last, added + step.added
        return added

    async def rebuild_vectors(self, space: int) -> int:
        return await self._removing(partial(repair.remake_vectors, space_id=space, now=self._clock()))

    async def tidy(self) -> bool:
        return await self._tidying.tidy()

    async def untidy(self) -> None:
        await self._tidying.due()

    def tell_erased(self, listener: ErasureListener) -> None:
        self._tidying.listeners.append(listener)

    async def export_page(self, selection: Selection, *, after: int, limit: int) -> ExportPage:
        return await self._readers.run(
            partial(transfer.page, selection=selection, now=self._clock(), after=after, limit=limit)
        )

    async def import_entry(
        self,
        draft: Draft,
        *,
        entry_id: str,
        created: int,
        updated: int,
        owed: bool,
        dry_run: bool = False,
    ) -> Saved:
        now = self._clock()
        if dry_run:
            return await self._readers.run(
                partial(transfer.would_import, draft=draft, entry_id=entry_id, updated=updated, now=now)
            )
        return await self._writer.run(
            partial(
                transfer.import_entry,
                draft=draft,
                entry_id=entry_id,
                created=created,
                updated=updated,
                now=now,
                owed=owed,
            )
        )

    async def backup(self, target: Path) -> Backup:
        stop = threading.Event()
        write = partial(backup.write_backup, target=target, database=self._path, now=self._clock(), stop=stop)
        async with self._one_check:
            writing = asyncio.ensure_future(self._readers.run(write, timeout_s=BACKUP_TIMEOUT_S))
            try:
                await asyncio.wait([writing])
            except asyncio.CancelledError:
                stop.set()
                with contextlib.suppress(AgentctxError):  # the cancellation is what the caller is told
                    await driver.finish(writing)
                raise
        return writing.result()

    async def stats(self) -> StorageStats:
        counts, chunks, vectors = await self._readers.run(_counts)
        return StorageStats(
            path=str(self._path),
            engine=f"{driver.sqlite_version()} ({driver.driver_name()})",
            entries=counts,
            chunks=chunks,
            vectors=vectors,
            bytes=_size(self._path),
            wal_bytes=_size(self._path.with_name(self._path.name + "-wal")),
            commits=self._writer.commits,
        )

    async def secret(self) -> bytes:
        return await self._readers.run(_find_secret) or await self._writer.run(_make_secret)

    async def _check(self, fn: Callable[[Connection], T]) -> T:
        """Run one check at a time: each holds a reader for as long as it takes."""
        async with self._one_check:
            return await self._readers.run(fn, timeout_s=CHECK_TIMEOUT_S)

    async def _removing(self, fn: Callable[[Connection], T]) -> T:
        """Run a function that removes something, and remember that it did, also when the caller is gone."""
        try:
            return await self._writer.run(fn)
        finally:
            self._tidying.note_deletion()

    async def _repeat(self, step: Callable[[Connection], int]) -> int:
        """Run a bounded step, each time in a transaction of its own, until it finds nothing to do."""
        total = 0
        while changed := await self._removing(step):
            total += changed
        return total


def _migrate(path: Path, clock: Clock) -> None:
    before = migrate.schema_version(path)
    applied = migrate.migrate_database(path, clock=clock)
    if before and applied:
        backup = migrate.backup_before_migration(path, before)
        log.info("migrated", schema=applied[-1], before=before, backup=str(backup))


def _counts(conn: Connection) -> tuple[dict[str, int], int, int]:
    entries_by_collection = dict(
        conn.execute("SELECT collection, COUNT(*) FROM entries WHERE live = 1 GROUP BY collection")
    )
    chunks = int(conn.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
    awaited = spaces.awaited_ids(conn)
    vectors = sum(index.count(conn) for index in spaces.prepared(conn) if index.space in awaited)
    return entries_by_collection, chunks, vectors


def _find_secret(conn: Connection) -> bytes:
    row = conn.execute("SELECT value FROM installation WHERE name = 'secret'").fetchone()
    return bytes(row[0]) if row else b""


def _make_secret(conn: Connection) -> bytes:
    conn.execute(
        "INSERT INTO installation (name, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING",
        (secrets.token_bytes(32),),
    )
    return _find_secret(conn)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
