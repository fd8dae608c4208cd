"""`agentctx migrate --to`: copy a memory from SQLite to a server, or from a server to SQLite."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agentctx.cli.migrate import SERVER, pending_migrations
from agentctx.cli.output import logs_to_stderr
from agentctx.config.schema import Settings
from agentctx.daemon.build import DaemonPaths
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from agentctx.errors import AlreadyRunning, ConfigInvalid, InvalidInput, NotFound
from agentctx.storage.base import Storage
from agentctx.storage.copy_storage import CopySource
from agentctx.storage.file.migrate import usable_schema
from agentctx.storage.opening import open_storage, server_of
from agentctx.storage.sqlite.statements import SqliteFileReader
from agentctx.times import wall_clock
from agentctx_postgresql import plugin
from agentctx_postgresql.copy_passes import (
    CopyPass,
    CopyTally,
    begin_copy,
    copy_pass,
    finish_copy,
    has_converged,
    tally,
)

_DAEMON: Final = "migrate"
"""Stands for a daemon's id while a memory is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """What the source contains, what this run copied, and what differs in the target.

    `entries` counts live ones, `vectors` all spaces, `pending` the embedding jobs, pending or buried.
    `copied` and `differences` are null after --dry-run.
    """

    source: str
    target: str
    entries: int
    versions: int
    vectors: int
    pending: int
    receipts: int
    damaged: list[str]
    """Entries of the source that no longer match what was saved; they are not copied."""
    copied: int | None = None
    """Versions written to the target, or removed from it because they were forgotten."""
    differences: int | None = None
    listed: list[str]
    dry_run: bool = False
    seconds_left: int | None = None
    """About how long the last pass takes, with every daemon stopped; null once the copy is complete."""

    @property
    def is_whole(self) -> bool:
        return not self.differences and not self.damaged and self.seconds_left is None


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """The location of a memory: the settings that open it, its file if it has one, and its display name."""

    settings: Settings
    file: Path
    shown: str

    @property
    def is_file(self) -> bool:
        return not self.settings.storage.url


def copy_to(settings: Settings, to: str, *, dry_run: bool) -> EngineReport:
    """Copy the memory and compare every row. While a daemon uses the source, the copy remains incomplete.

    Raises:
        InvalidInput: `to` uses the same engine as the source.
        NotFound: the database to copy does not exist.
        AlreadyRunning, Conflict: the memory is being copied already, a daemon has the target open, or the
            target has other entries.
        StorageFailed: the copy resumes when it is run again.
    """
    source, target = source_and_target(settings, to)
    with ExitStack() as locks:
        if not dry_run:
            file = source.file if source.is_file else target.file
            message = f"Another `agentctx migrate` is copying {file}."
            locks.enter_context(
                _lock(file.with_name("migrate.lock"), message, hint="Wait until it has ended.")
            )
        if not dry_run and target.is_file:
            locks.enter_context(_no_daemon_on(target))
        with logs_to_stderr():
            return asyncio.run(_copy_memory(source, target, dry_run=dry_run))


def _no_daemon_on(location: MemoryLocation) -> ExitStack:
    """Keep daemons from opening the file. Raises `AlreadyRunning`."""
    return _lock(data_lock_path(location.file.parent), "", hint="Stop it, or copy into another folder.")


def _lock(path: Path, message: str, *, hint: str) -> ExitStack:
    try:
        return acquire_lock(path)
    except AlreadyRunning as error:
        raise AlreadyRunning(message or error.message, hint=hint) from None


@contextmanager
def _source_is_still(location: MemoryLocation) -> Iterator[bool]:
    """Keep daemons from opening the file; yield False if one has it open. A server has no such lock: True."""
    with ExitStack() as stack:
        is_still = True
        if location.is_file:
            try:
                stack.enter_context(_no_daemon_on(location))
            except AlreadyRunning:
                is_still = False
        yield is_still


def source_and_target(settings: Settings, to: str) -> tuple[MemoryLocation, MemoryLocation]:
    """Return the source and the target."""
    is_server = to.startswith(SERVER)
    if is_server and settings.storage.url:
        raise InvalidInput(
            "--to names the engine that the memory already uses.", hint="Use `pg_dump` and `pg_restore`."
        )
    database = DaemonPaths.of(settings).database
    if is_server:
        target = _with_url(settings, to)
        shown = server_of(target) or ""
        return MemoryLocation(settings, _current(database), str(database)), MemoryLocation(
            target, database, shown
        )
    path = Path(to).absolute()
    path = path / database.name if path.is_dir() else path
    shown = server_of(settings) or ""
    return MemoryLocation(settings, database, shown), MemoryLocation(_with_url(settings, ""), path, str(path))


def report_lines(report: EngineReport) -> Iterator[str]:
    """Yield what was copied and whether it is identical, for people."""
    counts = (
        f"live entries {report.entries:,}, versions {report.versions:,}, vectors {report.vectors:,}, "
        f"embeddings pending {report.pending:,}, receipts {report.receipts:,}"
    )
    if report.dry_run:
        yield f"would copy  {counts}"
    else:
        yield f"copied  versions {report.copied:,}; the others were already present"
    if report.seconds_left is not None:
        yield (
            "not finished  a daemon uses the memory: stop it and run the same command again "
            f"(about {report.seconds_left} s)"
        )
    elif not report.dry_run:
        yield f"{'verified' if report.is_whole else 'NOT the same'}  {counts}"
    yield f"from  {report.source}"
    yield f"to    {report.target}"
    yield from (f"differs  {each}" for each in report.listed)
    yield from (f"damaged and not copied  entry {each}" for each in report.damaged)


def _current(database: Path) -> Path:
    """Return the SQLite file if it has the current schema: reading an older one would require changing it."""
    if not database.is_file():
        raise NotFound(f"Database {database} does not exist.", hint="Give its folder with --data-dir.")
    if pending_migrations(database).pending:
        raise ConfigInvalid(
            "The database has an earlier schema.", hint="Run `agentctx migrate` without --to first."
        )
    return database


def _with_url(settings: Settings, url: str) -> Settings:
    storage = settings.storage
    try:
        changed = type(storage).model_validate({**storage.model_dump(), "url": url})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"Invalid --to: it {reason}.") from None
    return settings.model_copy(update={"storage": changed})


async def _copy_memory(source: MemoryLocation, target: MemoryLocation, *, dry_run: bool) -> EngineReport:

    async with open_source(source) as memory:
        if dry_run:
            return _report(source, target, await tally(memory))
        async with _closing(await _open_target(target)) as copy:
            await begin_copy(memory, copy.copying)
            done, seconds_left = await _repeat_passes(source, memory, copy)
    return _report(source, target, done.tally, done, seconds_left)


@asynccontextmanager
async def open_source(location: MemoryLocation) -> AsyncIterator[CopySource]:
    """Open a database only to read it. Daemons may be using it."""
    if location.is_file:
        await asyncio.to_thread(usable_schema, location.file)
        yield CopySource(SqliteFileReader(location.file))
    else:
        async with _closing(await _open_server(location.settings)) as storage:
            yield storage.copying


async def _open_target(location: MemoryLocation) -> Storage:
    """Open or create a database, with the current schema, without registering as its daemon."""
    if location.is_file:
        return await open_storage(location.settings, location.file, clock=wall_clock)
    await plugin.update_schema(location.settings, applies=True)
    return await _open_server(location.settings)


async def _open_server(settings: Settings) -> Storage:
    return await plugin.open_storage(settings, daemon=_DAEMON, clock=wall_clock, migrates=False)


@asynccontextmanager
async def _closing(storage: Storage) -> AsyncIterator[Storage]:
    try:
        yield storage
    finally:
        await storage.close()


async def _repeat_passes(
    location: MemoryLocation, source: CopySource, target: Storage
) -> tuple[CopyPass, int | None]:
    """Run passes until one was the last, or another would hardly change less.

    Return the last pass, with the number of all changes, and its seconds if it must be repeated.
    """
    changed, previous = 0, None
    while True:
        began = time.monotonic()
        with _source_is_still(location) as is_still:
            is_last = is_still and await source.present_daemon() is None
            done = await copy_pass(source, target.copying, is_last=is_last)
            is_last = is_last and await source.present_daemon() is None
            if is_last and not done.differences:
                await finish_copy(target, done, origin=location.shown, principal=os.geteuid())
        changed += done.changed
        if is_last or has_converged(previous, done.changed):
            seconds_left = None if is_last else math.ceil(time.monotonic() - began)
            return replace(done, changed=changed), seconds_left
        previous = done.changed


def _report(
    source: MemoryLocation,
    target: MemoryLocation,
    counted: CopyTally,
    done: CopyPass | None = None,
    seconds_left: int | None = None,
) -> EngineReport:
    return EngineReport(
        source=source.shown,
        target=target.shown,
        **asdict(counted),
        copied=done.changed if done else None,
        differences=done.differences if done else None,
        listed=done.listed if done else [],
        dry_run=done is None,
        seconds_left=seconds_left,
    )
