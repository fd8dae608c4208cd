"""Chooses the engine: SQLite, or one that another package offers as an entry point."""

from __future__ import annotations

import asyncio
import secrets
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agentctx.config.bounded_files import read_bounded
from agentctx.config.entry_points import load_offered
from agentctx.config.schema import Settings, displayed_url
from agentctx.errors import DriverUnsuitable, InvalidInput
from agentctx.storage.base import ServerEngine, Storage
from agentctx.storage.file.migrate import SchemaState
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.offline import OfflineStorage
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.times import Clock

__all__ = ["SchemaState"]
ENTRY_POINTS: Final = "agentctx.storage"
"""Group of the entry points of other engines, each named after the scheme of its URLs."""
POSTGRESQL: Final = "agentctx-postgresql"
FILE_NAME: Final = "daemon-id"
"""Name of the file with the daemon's id, in its data folder."""


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
    migrates: bool = True,
) -> Storage:
    """Open or create the database at `settings.storage.url`, or else the file `database`.

    Without `migrates`, the schema on a server is not changed.

    Raises:
        SchemaTooNew: a newer agentctx wrote the database; it is unchanged.
        DriverUnsuitable: this machine has no usable engine.
        StorageFailed: not a database, the server does not answer, or an applied migration was changed.
    """
    if settings.storage.url:
        daemon = await asyncio.to_thread(daemon_id, database.parent)
        engine = server_engine(settings.storage.url)
        return await engine.open_storage(settings, daemon=daemon, clock=clock, migrates=migrates)
    return await SqliteStorage.open(
        database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        max_versions=settings.limits.max_versions,
        telemetry=telemetry,
        memory_mb=settings.vectors.memory_mb,
        words_mb=settings.words.memory_mb,
    )


def server_engine(url: str) -> ServerEngine:
    """Return the engine for the scheme of a URL, from its own package.

    Raises:
        DriverUnsuitable: the package is missing, incomplete, or of another version than this program.
    """
    scheme = urlsplit(url).scheme
    engine: ServerEngine = load_offered(
        ENTRY_POINTS, scheme, package=POSTGRESQL, needed_by=f"{scheme}://", refusal=DriverUnsuitable
    )
    return engine


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
