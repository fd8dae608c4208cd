"""`Storage` on one SQLite file: assigns functions to connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from agentctx.errors import StorageCorrupt, StorageFailed
from agentctx.storage.audit import AuditStorage
from agentctx.storage.base import Chore, Storage
from agentctx.storage.copy_storage import CopyStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.file import driver, migrate
from agentctx.storage.file.connection_thread import ConnectionThread
from agentctx.storage.file.copy import discard_copy
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import Readers
from agentctx.storage.file.writer import Writer
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.offline import size_of
from agentctx.storage.proofs import ProofStorage
from agentctx.storage.quotas import Usage
from agentctx.storage.records import StorageStats
from agentctx.storage.spaces import SpaceStorage
from agentctx.storage.sqlite import installation
from agentctx.storage.sqlite.audit.chain import SqliteAudit
from agentctx.storage.sqlite.backup.backup_file import SqliteFile
from agentctx.storage.sqlite.connections import SqliteConnections, SqlitePart, looks_up, reads
from agentctx.storage.sqlite.entries import lookup
from agentctx.storage.sqlite.entries.rows import CUE_BYTES
from agentctx.storage.sqlite.search import fts
from agentctx.storage.sqlite.search.postings_cache import DEFAULT_MB as WORDS_MB
from agentctx.storage.sqlite.search.search_storage import SqliteSearch
from agentctx.storage.sqlite.statements import SqliteFollower
from agentctx.storage.sqlite.upkeep import bookkeeping, file_repair
from agentctx.storage.sqlite.upkeep.scrub import SqliteScrub, fill_missing
from agentctx.storage.sqlite.upkeep.upkeep_storage import SqliteUpkeep
from agentctx.storage.sqlite.vectors import spaces
from agentctx.storage.sqlite.vectors.vector_caches import DEFAULT_MB
from agentctx.storage.trust_storage import TrustStorage
from agentctx.storage.versions import MAX_VERSIONS
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.times import Clock, wall_clock

LOOK_TIMEOUT_S: Final = 20.0


def usage_of(conn: Connection, principal: int) -> Usage:
    """Scan all entries without reading their contents. Cues count like content."""
    (stored,) = conn.execute(
        f"""SELECT coalesce(sum(octet_length(content) + {CUE_BYTES}), 0) FROM entries
            WHERE principal = ?""",  # noqa: S608 - constant
        (principal,),
    ).fetchone()
    (waiting,) = conn.execute(
        """SELECT COUNT(*) FROM jobs JOIN chunks ON chunks.id = jobs.chunk
           JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND entries.principal = ?""",
        (principal,),
    ).fetchone()
    return Usage(stored, waiting)


class SqliteEntries(SqlitePart, EntryStorage):
    """`EntryStorage` on the SQLite file: saves share a commit in the writer; reads run in the readers."""

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


log = structlog.get_logger("agentctx.storage")


class SqliteStorage(Storage):
    """The embedded engine: its parts over one set of connections. Create it with `open`; `close` it."""

    def __init__(
        self, connections: SqliteConnections, *, idempotency_hours: int, max_versions: int = MAX_VERSIONS
    ) -> None:
        self.db = connections
        self.clock = connections.clock
        follower = SqliteFollower(connections)
        self.audit = SqliteAudit(connections)
        self.entries = SqliteEntries(
            follower, self.audit, idempotency_hours=idempotency_hours, max_versions=max_versions
        )
        self.search = SqliteSearch(connections)
        self.jobs = OutboxStorage(follower)
        self.spaces = SpaceStorage(follower)
        self.trust = TrustStorage(follower)
        self.upkeep = SqliteUpkeep(follower)
        self.injections = InjectionStorage(follower)
        self.scrub = SqliteScrub(connections)
        self.proofs = ProofStorage(follower)
        self.copying = CopyStorage(follower)
        self.chores = (Chore("rewriting", self.upkeep.rewriter.step),)
        self.file = SqliteFile(connections)

    @property
    def fault(self) -> StorageFailed | None:
        return self.db.writer.fault

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        readers: int = 3,
        clock: Clock = wall_clock,
        idempotency_hours: int = 24,
        max_versions: int = MAX_VERSIONS,
        telemetry: Telemetry = NO_TELEMETRY,
        memory_mb: int = DEFAULT_MB,
        words_mb: int = WORDS_MB,
    ) -> SqliteStorage:
        """Open or create the database and migrate its schema.

        Up to `memory_mb` are used to search vectors in memory; 0 searches the table. Up to `words_mb` are
        used to search words in memory; 0 searches the index.

        Raises:
            SchemaTooNew: a newer agentctx wrote it; it is unchanged.
            SchemaForeign: it contains what agentctx did not make; nothing of it was run.
            DriverUnsuitable: no usable SQLite on this machine.
            StorageFailed: the file is not a database, or an applied migration was changed.
        """
        await asyncio.to_thread(file_repair.discard_partial_repairs, path)
        await asyncio.to_thread(discard_copy, path)
        async with _without_checkpoint(path):
            schema = await asyncio.to_thread(migrate.migrate_database, path, clock=clock)
            if schema.backup:
                before, backup = schema.before.version, str(schema.backup)
                log.info("migrated", schema=schema.version, before=before, backup=backup)
            writer = await Writer.open(path, telemetry)
            try:
                await _repair_bookkeeping(writer, clock, is_ledger_repaired=schema.before.is_misrecorded)
                await writer.run(fill_missing)
                pool = await Readers.open(path, readers, prepare=fts.make_scratch)
                writer.recover_with(pool)
            except BaseException:
                await writer.close()
                raise
        memory = {"memory_mb": memory_mb, "words_mb": words_mb}
        connections = SqliteConnections(path, writer, pool, clock=clock, **memory)
        storage = cls(connections, idempotency_hours=idempotency_hours, max_versions=max_versions)
        await storage.upkeep.inspect_words()
        return storage

    async def probe(self) -> None:
        """Wait until the writer has finished its present work. Raises like a write."""
        await self.db.writer.probe()

    async def close(self) -> None:
        """Finish accepted work, then close every connection. Idempotent."""
        await self.db.caches.close()
        await self.db.postings.close()
        await self.db.readers.close()
        await self.db.writer.close()

    async def stats(self) -> StorageStats:
        counts, chunks, vectors = await self.db.readers.run(_counts)
        return StorageStats(
            path=str(self.db.path),
            engine=f"SQLite {driver.sqlite_version()} ({driver.driver_name()})",
            entries=counts,
            chunks=chunks,
            vectors=vectors,
            vector_memory_bytes=self.db.caches.bytes,
            word_memory_bytes=self.db.postings.bytes,
            bytes=size_of(self.db.path),
            wal_bytes=size_of(self.db.path.with_name(self.db.path.name + "-wal")),
            commits=self.db.writer.commits,
        )

    async def usage(self, principal: int) -> Usage:
        return await self.db.readers.run(partial(usage_of, principal=principal), timeout_s=LOOK_TIMEOUT_S)

    async def secret(self) -> bytes:
        found = await self.db.read(installation.find, name=installation.SECRET)
        return await self.db.writer.run(installation.secret) if found is None else found


@contextlib.asynccontextmanager
async def _without_checkpoint(path: Path) -> AsyncIterator[None]:
    """Hold a reader open so that SQLite does not checkpoint while starting."""
    if not await asyncio.to_thread(path.exists):
        yield
        return
    anchor = await ConnectionThread.open(path, readonly=True)
    try:
        await anchor.run(lambda conn: conn.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall())
        yield
    finally:
        await anchor.close()


async def _repair_bookkeeping(writer: Writer, clock: Clock, *, is_ledger_repaired: bool) -> None:
    """Repair damaged bookkeeping rows; if their pages cannot be read, the start continues."""
    repair = partial(bookkeeping.repair, now=clock(), is_ledger_repaired=is_ledger_repaired)
    try:
        found = await writer.run(repair)
    except StorageCorrupt as error:
        log.error("bookkeeping_not_repaired", reason=error.message, hint="Run `agentctx doctor`.")  # noqa: TRY400 - the start continues
        return
    for table, rows in found.items():
        hint = "What was saved is not affected. Check the disk, and run `agentctx doctor`."
        log.error("bookkeeping_damaged", table=table, rows=rows, hint=hint)


def _counts(conn: Connection) -> tuple[dict[str, int], int, int]:
    entries_by_collection = dict(
        conn.execute("SELECT collection, COUNT(*) FROM entries WHERE live = 1 GROUP BY collection")
    )
    chunks = int(conn.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
    awaited = spaces.awaited_ids(conn)
    vectors = sum(index.count(conn) for index in spaces.prepared(conn) if index.space in awaited)
    return entries_by_collection, chunks, vectors
