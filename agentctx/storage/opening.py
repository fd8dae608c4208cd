"""Opens the storage that the configuration asks for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from agentctx.config.schema import Settings, VectorSettings
from agentctx.errors import ConfigInvalid, InvalidInput
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.outside_engine import OutsideVectorStorage
from agentctx.storage.sqlite.vector_index import IN_THE_FILE
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock
from agentctx.vector_stores.outside import OutsideVectors

CHROMA_FOLDER: Final = "chroma"
"""Inside the data folder, when neither a server nor another folder is configured."""


async def open_storage(
    settings: Settings,
    database: Path,
    *,
    clock: Clock,
    telemetry: Telemetry = NO_TELEMETRY,
    reserve_bytes: int = 0,
) -> SqliteStorage:
    """Open the database, with its vectors in it or in the configured store outside.

    Raises:
        ConfigInvalid: the store's package is not installed, or its address is none.
        SchemaTooNew, DriverUnsuitable, StorageFailed: the database cannot be used. An outside store that
            does not answer is no reason.
    """
    if settings.vectors.store == IN_THE_FILE:
        return await SqliteStorage.open(
            database,
            readers=settings.storage.readers,
            clock=clock,
            idempotency_hours=settings.storage.idempotency_hours,
            telemetry=telemetry,
            memory_mb=settings.vectors.memory_mb,
            reserve_bytes=reserve_bytes,
        )
    outside = await _open_chroma(settings.vectors, database, await _installation(database, clock))
    try:
        return await OutsideVectorStorage.open_outside(
            database,
            outside,
            readers=settings.storage.readers,
            clock=clock,
            idempotency_hours=settings.storage.idempotency_hours,
            telemetry=telemetry,
            reserve_bytes=reserve_bytes,
        )
    except BaseException:
        await outside.aclose()
        raise


async def _open_chroma(settings: VectorSettings, database: Path, installation: str) -> OutsideVectors:
    from agentctx.vector_stores.chroma_spaces import ChromaSpaces

    token = settings.token.get_secret_value() if settings.token else ""
    try:
        return await ChromaSpaces.open(
            prefix=f"agentctx-{installation}-",
            path=settings.path or database.parent / CHROMA_FOLDER,
            url=settings.url,
            headers={"X-Chroma-Token": token, "Authorization": f"Bearer {token}"} if token else None,
            timeout_s=settings.timeout_s,
        )
    except InvalidInput as error:
        raise ConfigInvalid(f"vectors.url: {error.message}", hint=error.hint) from error


async def _installation(database: Path, clock: Clock) -> str:
    """Tells the Chroma collections of this database from those of others on the same server."""
    storage = await SqliteStorage.open(database, readers=1, clock=clock)
    try:
        return hashlib.sha256(await storage.secret()).hexdigest()[:12]
    finally:
        await storage.close()
