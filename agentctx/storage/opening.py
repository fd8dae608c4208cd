"""Chooses the engine: the one module that names it."""

from __future__ import annotations

import asyncio
import secrets
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agentctx.config.schema import Settings, StorageSettings, shown_url
from agentctx.errors import DriverUnsuitable, InvalidInput
from agentctx.extras import install_hint
from agentctx.storage.base import Storage
from agentctx.storage.offline import OfflineStorage
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.offline import SqliteFilesOffline
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock

MIN_READERS: Final = 8
"""Connections to a server that read: each waits for its answers, so a few more than the cores are of use."""
FILE_NAME: Final = "daemon-id"
"""In the data folder, which belongs to one daemon."""


def server_of(settings: Settings) -> str | None:
    """Where the server is that has the database, as it is shown; None: it is a file in the data folder."""
    return shown_url(settings.storage.url) if settings.storage.url else None


def require_file(settings: Settings) -> None:
    """Raise InvalidInput where the database is not a file, for what works on the file alone."""
    if server := server_of(settings):
        raise InvalidInput(
            f"The database is on a server, {server}: there is no file to work on.",
            hint="Use the server's tools: pg_dump and pg_restore. The daemon migrates it at its start.",
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
    """Open or make the database: that of `settings.storage.url`, else the file `database`.

    Without `migrates`, the schema of a server stays as it is. `reserve_bytes` of the disk are kept for
    forgetting when it is full, once `files.keep_reserve` was called.

    Raises:
        SchemaTooNew: a newer agentctx wrote it; it was not touched.
        DriverUnsuitable: no usable engine on this machine.
        StorageFailed: it is not a database, it does not answer, or an applied migration was changed.
    """
    if settings.storage.url:
        return await _open_server(settings.storage, database.parent, clock, migrates=migrates)
    return await SqliteStorage.open(
        database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        telemetry=telemetry,
        memory_mb=settings.vectors.memory_mb,
        reserve_bytes=reserve_bytes,
    )


async def _open_server(settings: StorageSettings, data_dir: Path, clock: Clock, *, migrates: bool) -> Storage:
    if find_spec("asyncpg") is None:
        raise DriverUnsuitable("storage.url needs the package asyncpg.", hint=install_hint("postgresql"))
    from agentctx.storage.postgresql.driver import Server, password_of
    from agentctx.storage.postgresql.engine import PostgresqlStorage

    return await PostgresqlStorage.open(
        Server(
            url=settings.url,
            password=password_of(settings),
            is_pooled=settings.pooler == "transaction",
        ),
        daemon=await asyncio.to_thread(daemon_id, data_dir),
        readers=max(settings.readers, MIN_READERS),
        clock=clock,
        idempotency_hours=settings.idempotency_hours,
        migrates=migrates,
    )


def offline_storage() -> OfflineStorage:
    """The engine for files that no daemon has open."""
    return SqliteFilesOffline()


def daemon_id(data_dir: Path) -> str:
    """The id in the data folder, made when there is none. Raises OSError."""
    path = data_dir / FILE_NAME
    if path.is_file() and (known := path.read_text(encoding="utf-8").strip()):
        return known
    made = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    new = path.with_name(f"{path.name}.new")
    new.write_text(made, encoding="utf-8")
    new.chmod(0o600)
    new.replace(path)
    return made
