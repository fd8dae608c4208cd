"""Opens the storage that the configuration asks for."""

from __future__ import annotations

from pathlib import Path

from agentctx.config.schema import Settings
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock


async def open_storage(
    settings: Settings,
    database: Path,
    *,
    clock: Clock,
    telemetry: Telemetry = NO_TELEMETRY,
    reserve_bytes: int = 0,
) -> SqliteStorage:
    """Open the database. Raises as `SqliteStorage.open`."""
    return await SqliteStorage.open(
        database,
        readers=settings.storage.readers,
        clock=clock,
        idempotency_hours=settings.storage.idempotency_hours,
        telemetry=telemetry,
        memory_mb=settings.vectors.memory_mb,
        reserve_bytes=reserve_bytes,
    )
