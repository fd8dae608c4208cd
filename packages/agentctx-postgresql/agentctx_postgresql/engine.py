"""`Storage` on a PostgreSQL server: its parts, sharing one set of connections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from agentctx.config.schema import displayed_url
from agentctx.errors import StorageFailed
from agentctx.storage.base import Chore, ServerSchema, Storage
from agentctx.storage.copy_storage import CopyStorage
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.proofs import ProofStorage
from agentctx.storage.quotas import Usage
from agentctx.storage.records import StorageStats
from agentctx.storage.trust_storage import TrustStorage
from agentctx.storage.versions import MAX_VERSIONS
from agentctx.times import Clock, wall_clock
from agentctx.wire.wording import counted
from agentctx_postgresql import installation, migrate
from agentctx_postgresql.audit.audit_events import PostgresqlAudit
from agentctx_postgresql.connections import PostgresqlConnections
from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.entries.entry_storage import PostgresqlEntries
from agentctx_postgresql.presence import Presence
from agentctx_postgresql.search.search import PostgresqlSearch
from agentctx_postgresql.statements import PostgresqlFollower
from agentctx_postgresql.upkeep.scrub import PostgresqlScrub
from agentctx_postgresql.upkeep.upkeep_storage import PostgresqlUpkeep
from agentctx_postgresql.vectors import nearest_index
from agentctx_postgresql.vectors.spaces import PostgresqlSpaces

LOOK_TIMEOUT_S: Final = 20.0
# A role without pg_monitor sees that a standby is connected, but not its state.
_LOOK: Final = """
SELECT current_setting('synchronous_commit'), current_setting('fsync')::bool,
  current_setting('full_page_writes')::bool, current_setting('synchronous_standby_names'),
  (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup')"""


async def usage_of(conn: Connection, principal: int) -> Usage:
    """Return the user's usage, from an index that includes the sizes. Cues count like content."""
    stored = await conn.fetchval(
        "SELECT coalesce(sum(size), 0)::bigint FROM entries WHERE principal = $1", principal
    )
    waiting = await conn.fetchval(
        """SELECT count(*) FROM jobs JOIN chunks ON chunks.id = jobs.chunk
           JOIN entries ON entries.seq = chunks.entry
           WHERE jobs.state = 'pending' AND entries.principal = $1""",
        principal,
    )
    return Usage(stored, waiting)


log = structlog.get_logger("agentctx.storage")

# A dump has transaction numbers of another cluster, maybe ahead of this one: no export page would end.
_AFTER_A_RESTORE: Final = (
    """UPDATE entries SET x = pg_current_xact_id()
       WHERE live AND x >= pg_snapshot_xmax(pg_current_snapshot())""",
    "DELETE FROM erasures WHERE x >= pg_snapshot_xmax(pg_current_snapshot())",
)


class PostgresqlStorage(Storage):
    """The engine that any number of daemons can share. Create it with `open`; close it with `close`."""

    def __init__(
        self, connections: PostgresqlConnections, *, idempotency_hours: int, max_versions: int = MAX_VERSIONS
    ) -> None:
        self.db = connections
        self.clock = connections.clock
        follower = PostgresqlFollower(connections)
        self.presence = Presence(connections)
        self.audit = PostgresqlAudit(connections)
        self.entries = PostgresqlEntries(
            follower, self.audit, idempotency_hours=idempotency_hours, max_versions=max_versions
        )
        self.jobs = OutboxStorage(follower)
        self.spaces = PostgresqlSpaces(follower, connections)
        self.search = PostgresqlSearch(connections)
        self.trust = TrustStorage(follower)
        self.upkeep = PostgresqlUpkeep(follower)
        self.scrub = PostgresqlScrub(connections)
        self.proofs = ProofStorage(follower)
        self.copying = CopyStorage(follower)
        self.injections = InjectionStorage(follower)
        self.chores = (Chore("indexes", partial(nearest_index.build_one, connections)),)
        self.file = None

    @property
    def fault(self) -> StorageFailed | None:
        return self.db.fault

    @classmethod
    async def open(
        cls,
        server: Server,
        *,
        daemon: str,
        readers: int = 8,
        clock: Clock = wall_clock,
        server_clock: Clock | None = None,
        idempotency_hours: int = 24,
        max_versions: int = MAX_VERSIONS,
        migrates: bool = True,
    ) -> PostgresqlStorage:
        """Connect and update the schema. `daemon` is this daemon's id, the same at each start.

        The server's clock decides when entries expire and leases end; `server_clock` replaces it in tests.
        Times of jobs are given by `clock` and converted. Without `migrates`, the schema must already be up to
        date.

        Raises:
            SchemaTooNew: a newer agentctx wrote the schema, which is left unchanged.
            DriverUnsuitable: the server or pgvector is missing or too old.
            ConfigInvalid: the server rejects the user or the password, or lacks the database.
            StorageFailed: the server does not answer, or an applied migration was changed.
        """
        connections = PostgresqlConnections(
            server, daemon=daemon, clock=clock, server_clock=server_clock, readers=readers
        )
        await connections.open()
        storage = cls(connections, idempotency_hours=idempotency_hours, max_versions=max_versions)
        try:
            await connections.prepare(_bring_up_to_date if migrates else _check)
            await connections.erasures.start(connections)
            if migrates:
                await storage.presence.start()
        except BaseException:
            await storage.close()
            raise
        return storage

    async def probe(self) -> None:
        """Wait until a connection for writing is free. Raises like a write."""
        await self.db.write(lambda conn: conn.fetchval("SELECT 1"))

    async def close(self) -> None:
        """Finish accepted work, then close every connection. Idempotent."""
        await self.presence.close()
        await self.db.erasures.close()
        await self.entries.groups.close()
        await self.db.close()

    async def stats(self) -> StorageStats:
        """Return counts and sizes. Raises like a read."""
        counts, chunks, vectors, size, version = await self.db.read(_counts)
        warnings = durability_warnings(await self.db.read(commit_settings))
        return StorageStats(
            path=displayed_url(self.db.server.url),
            engine=f"PostgreSQL {version}",
            entries=counts,
            chunks=chunks,
            vectors=vectors,
            bytes=size,
            commits=self.db.commits,
            warnings=warnings,
        )

    async def usage(self, principal: int) -> Usage:
        return await self.db.read(partial(usage_of, principal=principal), LOOK_TIMEOUT_S)

    async def secret(self) -> bytes:
        """Return the installation's 32 random bytes, generated once."""
        return await self.db.write(installation.secret)


async def update_schema(server: Server, *, applies: bool) -> ServerSchema:
    """Return the versions of the schema; with `applies`, apply the missing ones first.

    Raises:
        SchemaTooNew, DriverUnsuitable, ConfigInvalid, StorageFailed: as for `PostgresqlStorage.open`.
    """
    connections = PostgresqlConnections(server, daemon="migrate", readers=1)
    files = migrate.load_schema()
    await connections.open()
    try:
        await connections.prepare(migrate.check_server)
        before = await connections.prepare(migrate.applied_schema)
        missing = migrate.missing(before, files)
        if applies:
            await connections.prepare(lambda conn: migrate.migrate(conn, files))
    finally:
        await connections.close()
    return ServerSchema(tuple(file.version for file in files), tuple(file.version for file in missing))


async def _check(conn: Connection) -> None:
    await migrate.check_server(conn)
    await migrate.require_current(conn, migrate.load_schema())


async def _bring_up_to_date(conn: Connection) -> None:
    await migrate.check_server(conn)
    if applied := await migrate.migrate(conn, migrate.load_schema()):
        log.info("migrated", schema=applied[-1])
    for statement in _AFTER_A_RESTORE:
        await conn.execute(statement)
    for warning in durability_warnings(await commit_settings(conn)):
        log.warning("saves_not_safe", reason=warning)


async def _counts(conn: Connection) -> tuple[dict[str, int], int, int, int, str]:
    rows = await conn.fetch("SELECT collection, count(*) FROM entries WHERE live GROUP BY collection")
    chunks = await conn.fetchval("SELECT count(*) FROM chunks")
    awaited = await conn.fetch("SELECT id FROM awaited_spaces WHERE to_regclass('vec_' || id) IS NOT NULL")
    vectors = [await conn.fetchval(f"SELECT count(*) FROM vec_{space:d}") for (space,) in awaited]  # noqa: S608 - a number
    size = await conn.fetchval("SELECT pg_database_size(current_database())")
    version = await conn.fetchval("SHOW server_version")
    return {row[0]: row[1] for row in rows}, chunks, sum(vectors), size, version


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """The settings that determine where a transaction is stored when its COMMIT returns."""

    synchronous_commit: str = "on"
    fsync: bool = True
    full_page_writes: bool = True
    synchronous_standby_names: str = ""
    standbys: int = 0
    """Number of connected standbys."""


async def commit_settings(conn: Connection) -> CommitSettings:
    """Return the current settings of this connection."""
    return CommitSettings(*await conn.fetchrow(_LOOK))


def durability_warnings(settings: CommitSettings) -> tuple[str, ...]:
    """Return one sentence for each way in which acknowledged saves can be lost."""
    commit, names = settings.synchronous_commit, settings.synchronous_standby_names
    risks = {
        "synchronous_commit is off: a crash of the server can lose acknowledged saves.": commit == "off",
        "fsync is off: a crash of the server's machine can lose acknowledged saves.": not settings.fsync,
        "full_page_writes is off: a crash of the server's machine can damage the database.": (
            not settings.full_page_writes
        ),
        "synchronous_commit is local: a failover can lose acknowledged saves.": commit == "local" and names,
        f"{counted(settings.standbys, 'standby', 'standbys')} connected and synchronous_standby_names is "
        "empty: a failover can lose acknowledged saves.": settings.standbys > 0 and not names,
    }
    return tuple(sentence for sentence, applies in risks.items() if applies)
