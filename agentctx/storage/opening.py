"""Chooses the engine: the one module that names it."""

from __future__ import annotations

from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.storage.base import Storage
from agentctx.storage.offline import OfflineStorage
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.offline import SqliteFilesOffline
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock


async def open_storage(
    settings: Settings,
    database: Path,
    *,
    clock: Clock,
    telemetry: Telemetry = NO_TELEMETRY,
    reserve_bytes: int = 0,
) -> Storage:
    """Open or make the database.

    `reserve_bytes` of the disk are kept for forgetting when it is full, once `files.keep_reserve` was called.

    Raises:
        SchemaTooNew: a newer agentctx wrote it; it was not touched.
        DriverUnsuitable: no usable engine on this machine.
        StorageFailed: it is not a database, or an applied migration was changed.
    """
    return await SqliteStorage.open(
        database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        telemetry=telemetry,
        memory_mb=settings.vectors.memory_mb,
        reserve_bytes=reserve_bytes,
    )


def offline_storage() -> OfflineStorage:
    """The engine for files that no daemon has open."""
    return SqliteFilesOffline()
