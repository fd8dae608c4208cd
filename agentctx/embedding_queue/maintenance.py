"""What the storage needs done in the background: removing what has expired, tidying up after deletions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed

log = structlog.get_logger("agentctx.embedding_queue")

GATHERED_S: Final = 1.0
"""Deletions of so long a time share one tidying, which holds up writes for milliseconds."""
PROMISED_S: Final = 5.0
"""After a deletion nothing of it is in the files."""


class Swept(Protocol):
    """What keeps things for a time."""

    async def sweep(self) -> int:
        """Remove some of what is over; returns how much, 0 when nothing is left."""
        ...


class Tidied(Protocol):
    """What holds deleted text in its files until it is tidied up. See `Storage`."""

    async def untidy(self) -> None: ...
    async def tidy(self) -> bool: ...


class Scrubbed(Protocol):
    """What is compared with its checksums, a slice at a time. See `ScrubStorage`."""

    async def step(self) -> bool: ...


class Rebuilt(Protocol):
    """What has an index that may be half rebuilt. See `Storage`."""

    async def resume_words(self) -> int | None: ...


async def resume_rebuild(storage: Rebuilt) -> None:
    """Finish a rebuild of the keyword index that a crash interrupted, and log it."""
    try:
        indexed = await storage.resume_words()
    except StorageFailed as error:
        log.warning("words_not_rebuilt", code=error.code, reason=error.message)
        return
    if indexed is not None:
        log.info("words_rebuilt", chunks=indexed)


async def maintain(
    storage: Swept,
    *,
    interval_s: float,
    receipts: Swept | None = None,
    audit: Swept | None = None,
    scrub: Scrubbed | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Remove expired entries, old receipts and audit rows, and scrub a slice; now and every `interval_s`.

    Ends when it is cancelled. What the storage fails is logged and made up for by the next round; any other
    error ends it.
    """
    while True:
        await _sweep_all(storage, "entries")
        if receipts is not None:
            await _sweep_all(receipts, "receipts")
        if audit is not None:
            await _sweep_all(audit, "audit_rows")
        if scrub is not None:
            await _scrub(scrub)
        await sleep(interval_s)


async def keep_tidy(storage: Tidied, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Make what is deleted leave the files soon after, many deletions at once. Ends when it is cancelled.

    Blocking readers are waited for as long as it takes, and logged when that exceeds `PROMISED_S`.
    """
    while True:
        await storage.untidy()
        waited_s, problem = 0.0, ""
        while True:
            pause_s = GATHERED_S if waited_s < PROMISED_S else PROMISED_S
            await sleep(pause_s)
            waited_s += pause_s
            problem_before, problem = problem, await _problem_of_tidying(storage)
            if not problem:
                break
            if problem != problem_before or waited_s == PROMISED_S:
                level = logging.DEBUG if waited_s < PROMISED_S else logging.WARNING
                log.log(level, "deleted_text_remains", reason=problem, seconds=waited_s)
        if waited_s > PROMISED_S:
            log.info("deleted_text_is_gone", seconds=waited_s)


async def _scrub(scrub: Scrubbed) -> None:
    try:
        await scrub.step()
    except (DeadlineExceeded, StorageFailed) as error:
        log.warning("scrub_failed", error=error.code, reason=error.message)


async def _sweep_all(kept: Swept, what: str) -> None:
    removed = 0
    try:
        while count := await kept.sweep():
            removed += count
    except StorageFailed as error:
        log.warning("sweep_failed", error=error.code, reason=error.message)
    if removed:
        log.info("swept", **{what: removed})


async def _problem_of_tidying(storage: Tidied) -> str:
    """Why deleted text is still in the files; empty when none is."""
    try:
        return "" if await storage.tidy() else "the database is being read"
    except StorageFailed as error:
        return error.message
