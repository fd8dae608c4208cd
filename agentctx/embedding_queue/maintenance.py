"""The background sweep of what has expired."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from agentctx.errors import StorageFailed

log = structlog.get_logger("agentctx.embedding_queue")


class Sweepable(Protocol):
    """The part of `Storage` that the sweep needs."""

    async def sweep(self, *, limit: int = ...) -> int: ...


async def maintain(
    storage: Sweepable,
    *,
    interval_s: float,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Remove expired entries now and every `interval_s` seconds, until cancelled.

    A sweep that the storage fails is logged and made up for by the next; any other error ends it.
    """
    while True:
        await _sweep_all(storage)
        await sleep(interval_s)


async def _sweep_all(storage: Sweepable) -> None:
    removed = 0
    try:
        while count := await storage.sweep():
            removed += count
    except StorageFailed as error:
        log.warning("sweep_failed", error=error.code, reason=error.message)
    if removed:
        log.info("swept", entries=removed)
