"""The cost of a one-gigabyte database: a start after a crash, a backup during saves, a restore."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from time import perf_counter

from agentctx.client.async_client import AsyncClient
from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.registry import create_provider
from agentctx.storage.file.driver import open_connection
from agentctx.storage.sqlite.backup.restore import restore_database
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.times import wall_clock
from benchmarks.backup import BACKUP_TIMEOUT_S, SAVERS, Savers
from benchmarks.daemons import daemon_folder, database_in, start_s, started
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill, save
from benchmarks.footprint import compile_own
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median

ENTRIES = 345_000
"""Texts of 400 characters, with a vector each: one gigabyte."""
MEBIBYTE = 1024 * 1024
GB = 1_000_000_000
WAL_MIB = 64
MOST_START_S = 2.0
MOST_RESTORE_S = 60.0
_WATCH_S = 60.0
"""Long enough that the daemon also checks its invariant in the meantime."""
_SAVES_AT_ONCE = 200


async def measure(options: Options) -> list[Figure]:
    compile_own()
    wal_mib = options.size(WAL_MIB, 8)
    with daemon_folder() as folder:
        await _fill(database_in(folder), options.size(ENTRIES, 4_000), wal_mib, folder / "crashed")
        size = sum(path.stat().st_size for path in (folder / "crashed").iterdir())
        starts = _starts(folder / "crashed", rounds=options.size(7, 2))
        longest, took_s = await _backed_up(folder, options.size(round(_WATCH_S), 3))
        restored_s = await asyncio.to_thread(_restored_s, folder)
    name = f"{size / GB:.2f} GB"
    return [
        Figure(
            name=f"start until ready, {name}, a WAL of {wal_mib} MiB, p50",
            value=median(starts[1]),
            unit="s",
            baseline=median(starts[0]),
            bar=at_most(MOST_START_S, f"{MOST_START_S:g} s"),
        ),
        Figure(
            name=f"longest WAL with {SAVERS} savers and a backup, {name}",
            value=longest / MEBIBYTE,
            unit="MiB",
            bar=at_most(WAL_MIB, f"{WAL_MIB} MiB"),
        ),
        Figure(name=f"backup with {SAVERS} savers, {name}", value=took_s, unit="s"),
        Figure(
            name=f"restore, {name}",
            value=restored_s / size * GB,
            unit="s/GB",
            bar=at_most(MOST_RESTORE_S, f"{MOST_RESTORE_S:g} s/GB"),
        ),
    ]


async def _fill(database: Path, entries: int, wal_mib: int, crashed: Path) -> None:
    """Fill the database, then leave a WAL of this size in `crashed`, as a crash would."""
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    try:
        await fill(database, provider, TextSource(seed=8), entries)
    finally:
        await provider.aclose()
    wal = database.with_name(f"{database.name}-wal")
    storage = await SqliteStorage.open(database)
    try:
        with closing(open_connection(database, readonly=True)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM spaces").fetchall()  # from here on, nothing is checkpointed
            texts = TextSource(seed=5)
            while wal.stat().st_size < wal_mib * MEBIBYTE:
                await save(storage, texts, _SAVES_AT_ONCE)
            await asyncio.to_thread(_copy, [database, wal], crashed)
    finally:
        await storage.close()


def _copy(files: list[Path], folder: Path) -> None:
    folder.mkdir()
    for file in files:
        shutil.copyfile(file, folder / file.name)


def _starts(crashed: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Startup seconds of empty daemons and, in turns, of daemons after the crash."""
    empty, full = [], []
    for _ in range(rounds):
        with daemon_folder() as folder:
            empty.append(start_s(folder))
        with daemon_folder() as folder:
            for file in crashed.iterdir():
                shutil.copyfile(file, folder / "data" / file.name)
            os.sync()  # work that a start does not wait for
            full.append(start_s(folder))
    return empty, full


async def _backed_up(folder: Path, watch_s: int) -> tuple[int, float]:
    """Return the largest size of the WAL while clients save, and the seconds of a concurrent backup."""
    wal = database_in(folder).with_name(f"{database_in(folder).name}-wal")
    longest = 0
    async with (
        started(folder) as client,
        _saving(client),
        AsyncClient(client.socket, timeout_s=BACKUP_TIMEOUT_S) as other,
    ):
        began = perf_counter()
        backup = asyncio.create_task(other.backup(str(folder / "backup.db")))
        took_s: float | None = None
        while took_s is None or perf_counter() - began < watch_s:
            await asyncio.sleep(0.1)
            longest = max(longest, wal.stat().st_size if wal.exists() else 0)
            if took_s is None and backup.done():
                took_s = perf_counter() - began
        await backup
    return longest, took_s


@asynccontextmanager
async def _saving(client: AsyncClient) -> AsyncIterator[None]:
    savers = Savers()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(client.socket)) for _ in range(SAVERS)]
        saving = [asyncio.create_task(savers.save_on(each, number)) for number, each in enumerate(clients)]
        yield
        for task in saving:
            task.cancel()
        await asyncio.wait(saving)


def _restored_s(folder: Path) -> float:
    began = perf_counter()
    (folder / "restored").mkdir()
    restore_database(folder / "backup.db", folder / "restored" / "agentctx.db", now=wall_clock())
    return perf_counter() - began
