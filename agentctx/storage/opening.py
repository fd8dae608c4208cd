"""Chooses the engine; the only module that names the engines."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentctx.bounded_files import read_bounded
from agentctx.config.schema import Settings, StorageSettings, displayed_url
from agentctx.errors import DriverUnsuitable, InvalidInput
from agentctx.extras import install_hint
from agentctx.sqlite.migrate import SchemaState, refuse_foreign
from agentctx.sqlite.reserve import ReserveState
from agentctx.storage.base import Storage
from agentctx.storage.copying import CopySource
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.entries.copying import SqliteFileSource
from agentctx.storage.sqlite.offline import OfflineStorage
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock

if TYPE_CHECKING:
    from agentctx.storage.postgresql.driver import Server
    from agentctx.storage.postgresql.engine import ServerSchema

__all__ = ["ReserveState", "SchemaState"]
MIN_READERS: Final = 8
"""Minimum number of read connections to a server: they wait for replies, so more than cores help."""
FILE_NAME: Final = "daemon-id"
"""Name of the file with the daemon's id, in its data folder."""
_MIGRATION: Final = "migrate"
"""Stands for a daemon's id while a memory is copied."""


def server_of(settings: Settings) -> str | None:
    """Return the displayable address of the database server; None if the database is a local file."""
    return displayed_url(settings.storage.url) if settings.storage.url else None


def require_file(settings: Settings) -> None:
    """Raise `InvalidInput` unless the database is a file."""
    if server := server_of(settings):
        raise InvalidInput(
            f"The database is on a server, {server}: there is no file to work on.",
            hint="Use the server's tools: pg_dump and pg_restore.",
        )


async def open_storage(
    settings: Settings,
    database: Path,
    *,
    clock: Clock,
    telemetry: Telemetry = NO_TELEMETRY,
    reserve_bytes: int = 0,
    migrates: bool = True,
) -> Storage:
    """Open or create the database at `settings.storage.url`, or else the file `database`.

    Without `migrates`, the schema on a server is not changed. Once `files.keep_reserve` has been called,
    `reserve_bytes` of disk space are reserved for forgetting on a full disk.

    Raises:
        SchemaTooNew: a newer agentctx wrote the database; it is unchanged.
        DriverUnsuitable: this machine has no usable engine.
        StorageFailed: not a database, the server does not answer, or an applied migration was changed.
    """
    if settings.storage.url:
        daemon = await asyncio.to_thread(daemon_id, database.parent)
        return await _open_server(settings, daemon, clock, migrates=migrates)
    return await SqliteStorage.open(
        database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        max_versions=settings.limits.max_versions,
        telemetry=telemetry,
        memory_mb=settings.vectors.memory_mb,
        reserve_bytes=reserve_bytes,
    )


@asynccontextmanager
async def open_copy_source(settings: Settings, database: Path, *, clock: Clock) -> AsyncIterator[CopySource]:
    """Open a database only to read it. Daemons may be using it.

    Raises:
        SchemaTooNew, DriverUnsuitable, ConfigInvalid, StorageFailed: as for `open_storage`.
    """
    if not settings.storage.url:
        await asyncio.to_thread(refuse_foreign, database)
        yield SqliteFileSource(database)
        return
    storage = await _open_server(settings, _MIGRATION, clock, migrates=False)
    try:
        yield storage.copying
    finally:
        await storage.close()


@asynccontextmanager
async def open_copy_target(settings: Settings, database: Path, *, clock: Clock) -> AsyncIterator[Storage]:
    """Open or create a database, with the current schema, without registering as its daemon.

    Raises:
        SchemaTooNew, DriverUnsuitable, ConfigInvalid, StorageFailed: as for `open_storage`.
    """
    if settings.storage.url:
        await update_server(settings, applies=True)
        storage = await _open_server(settings, _MIGRATION, clock, migrates=False)
    else:
        storage = await open_storage(settings, database, clock=clock)
    try:
        yield storage
    finally:
        await storage.close()


async def _open_server(settings: Settings, daemon: str, clock: Clock, *, migrates: bool) -> Storage:
    server = _server(settings.storage)
    from agentctx.storage.postgresql.engine import PostgresqlStorage

    return await PostgresqlStorage.open(
        server,
        daemon=daemon,
        readers=max(settings.storage.readers, MIN_READERS),
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        max_versions=settings.limits.max_versions,
        migrates=migrates,
    )


async def update_server(settings: Settings, *, applies: bool) -> ServerSchema:
    """Apply the missing migrations to the database on the server, or, without `applies`, only list them.

    Raises:
        SchemaTooNew, DriverUnsuitable, ConfigInvalid, StorageFailed: as for `open_storage`.
    """
    server = _server(settings.storage)
    from agentctx.storage.postgresql.engine import update_schema

    return await update_schema(server, applies=applies)


def _server(settings: StorageSettings) -> Server:
    if find_spec("asyncpg") is None:
        raise DriverUnsuitable("storage.url needs the package asyncpg.", hint=install_hint("postgresql"))
    from agentctx.storage.postgresql.driver import Server, password_of

    return Server(
        url=settings.url,
        password=password_of(settings),
        is_pooled=settings.pooler == "transaction",
    )


def offline_storage() -> OfflineStorage:
    """Return the engine for database files that no daemon has open."""
    return OfflineStorage()


def daemon_id(data_dir: Path) -> str:
    """Return the daemon's id from the data folder, creating it if there is none. Raises OSError."""
    path = data_dir / FILE_NAME
    if path.is_file() and (known := read_bounded(path).decode().strip()):
        return known
    made = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    new = path.with_name(f"{path.name}.new")
    new.write_text(made, encoding="utf-8")
    new.chmod(0o600)
    new.replace(path)
    return made
