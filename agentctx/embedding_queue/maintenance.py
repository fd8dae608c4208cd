"""What the storage needs done in the background: removing what has expired, tidying up after deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from agentctx.errors import StorageFailed

log = structlog.get_logger("agentctx.embedding_queue")


class Maintained(Protocol):
    """The part of `Storage` that is maintained."""

    async def sweep(self, *, limit: int = ...) -> int: ...

    async def tidy(self) -> bool: ...


async def maintain(
    storage: Maintained,
    *,
    interval_s: float,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Remove expired entries, and deleted text from the files, now and every `interval_s` seconds.

    Ends when it is cancelled. What the storage fails is logged and made up for by the next round; any other
    error ends it.
    """
    while True:
        await _sweep_all(storage)
        await _tidy(storage)
        await sleep(interval_s)


async def _sweep_all(storage: Maintained) -> None:
    removed = 0
    try:
        while count := await storage.sweep():
            removed += count
    except StorageFailed as error:
        log.warning("sweep_failed", error=error.code, reason=error.message)
    if removed:
        log.info("swept", entries=removed)


async def _tidy(storage: Maintained) -> None:
    try:
        if not await storage.tidy():
            log.debug("tidying_put_off", reason="readers were in the way")
    except StorageFailed as error:
        log.warning("tidying_failed", error=error.code, reason=error.message)
