"""Background maintenance of the storage: remove what has expired, and tidy up after deletions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import structlog

from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.storage.base import Chore
from agentctx.storage.scrub import ScrubStorage

log = structlog.get_logger("agentctx.embedding_queue")

GATHERED_S: Final = 1.0
"""Deletions within this time share one tidying, which blocks writes for milliseconds."""
PROMISED_S: Final = 5.0
"""After this time, nothing deleted is left in the files."""

CHORE_EVERY_S: Final = 60.0
CHORE_PAUSE_S: Final = 0.2
"""Pause between the steps of a chore, each of which may delay saves by about 20 ms."""


class ExpiringStore(Protocol):
    """A store whose content expires."""

    async def sweep(self) -> int:
        """Remove some of what has expired and return the number removed; 0 if nothing is left to remove."""


class TidiedStore(Protocol):
    """A store that keeps deleted text in its files until it is tidied. See `Storage`."""

    async def wait_for_work(self) -> None: ...
    async def tidy(self) -> bool: ...


class RebuildableStorage(Protocol):
    """A store whose index may be half rebuilt. See `Storage`."""

    async def resume_words(self) -> int | None: ...


async def resume_rebuild(storage: RebuildableStorage) -> None:
    """Finish a rebuild of the keyword index that a crash interrupted, and log it."""
    try:
        indexed = await storage.resume_words()
    except StorageFailed as error:
        log.warning("words_not_rebuilt", code=error.code, reason=error.message)
        return
    if indexed is not None:
        log.info("words_rebuilt", chunks=indexed)


async def maintain(
    storage: ExpiringStore,
    *,
    interval_s: float,
    receipts: ExpiringStore | None = None,
    audit: ExpiringStore | None = None,
    withdrawn: ExpiringStore | None = None,
    waiting: ExpiringStore | None = None,
    scrub: ScrubStorage | None = None,
    held: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
    recheck_table: Callable[[], None] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Remove expired and withdrawn entries, those that waited too long for a review, old receipts and audit
    rows, and scrub a slice, at once and every `interval_s`.

    `recheck_table` makes the queue look for the jobs of daemons that have died. `held` says, for the log,
    which backups hold what expired.

    Runs until cancelled. A failure of the storage is logged and made up for in the next round; any other
    error is raised.
    """
    while True:
        await _sweep_all(storage, "entries", held)
        if receipts is not None:
            await _sweep_all(receipts, "receipts")
        if audit is not None:
            await _sweep_all(audit, "audit_rows")
        if withdrawn is not None:
            await _sweep_all(withdrawn, "withdrawn_entries", held)
        if waiting is not None:
            await _sweep_all(waiting, "waiting_entries", held)
        if scrub is not None:
            try:
                await scrub.step()
            except (DeadlineExceeded, StorageFailed) as error:
                log.warning("scrub_failed", error=error.code, reason=error.message)
        await sleep(interval_s)
        if recheck_table is not None:
            recheck_table()


async def keep_doing(chore: Chore, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Do an engine's chore every `CHORE_EVERY_S`, in steps with pauses. Runs until cancelled."""
    while True:
        try:
            while await chore.step():
                await sleep(CHORE_PAUSE_S)
        except (DeadlineExceeded, StorageFailed) as error:
            log.warning("chore_failed", chore=chore.name, code=error.code, reason=error.message)
        await sleep(CHORE_EVERY_S)


async def keep_tidy(
    storage: TidiedStore, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Purge deleted text from the files, gathering many deletions into one tidying. Runs until cancelled.

    Blocking readers are waited for without limit, which is logged beyond `PROMISED_S`.
    """
    while True:
        await storage.wait_for_work()
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


async def _sweep_all(
    kept: ExpiringStore, what: str, held: Callable[[], Awaitable[Mapping[str, Any]]] | None = None
) -> None:
    removed = 0
    try:
        while count := await kept.sweep():
            removed += count
    except (DeadlineExceeded, StorageFailed) as error:
        log.warning("sweep_failed", error=error.code, reason=error.message)
    if removed:
        log.info("swept", **{what: removed}, **(await held() if held is not None else {}))


async def _problem_of_tidying(storage: TidiedStore) -> str:
    """Return why deleted text is still in the files; empty if none is."""
    try:
        return "" if await storage.tidy() else "the database is being read"
    except (DeadlineExceeded, StorageFailed) as error:
        return error.message
