"""Compare both storage engines: saves, questions, and several daemons on one queue."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from agentctx.embedding.providers.base import unit_rows
from agentctx.storage.base import Storage
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx.times import wall_clock
from agentctx_postgresql_tests.server import running_server, why_unavailable
from agentctx_testing.drafts import ALL, FINGERPRINT, keyless
from benchmarks.drainer import open_server
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.filling import SEEDS
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

TEXT_CHARACTERS = 400
DIMENSION = 384
HITS = 40
CLIENTS = 16
MOST_TIMES_SQLITE = 1.5
DAEMONS = (1, 2, 4)
SERVER_SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "4GB", "maintenance_work_mem": "1GB"}
"""With PostgreSQL's defaults, the index of 100,000 vectors does not fit the server's own memory."""
LEAST_TIMES_ONE = 2.5


async def measure(options: Options) -> list[Figure]:
    """Yields nothing if no PostgreSQL server can be started. The bars apply to 100,000 entries."""
    if why_unavailable():
        return []
    async with _both() as (url, engines):
        count = 100_000 if options.large else options.size(10_000, 500)
        rates = [await _filled(storage, count) for storage in engines]
        saves = await interleaved_ms([partial(_save, each) for each in engines], rounds=options.size(300, 50))
        asked = [partial(action, each) for action in (_by_words, _by_vector) for each in engines]
        words, words_there, vectors, vectors_there = await interleaved_ms(asked, rounds=options.size(200, 50))
        drained = [await _drained(engines[1], url, daemons) for daemons in DAEMONS]
    most_times = MOST_TIMES_SQLITE if options.large else None
    saved = Figure(
        name=f"PostgreSQL: saves of {CLIENTS} clients",
        value=rates[1],
        unit="/s",
        baseline=rates[0],
        bar=at_least(rates[0], "SQLite's") if options.large else None,
    )
    return [
        saved,
        *_compared("save of one client", *saves),
        *_compared("by words", words, words_there, most_times=most_times),
        *_compared("by vectors", vectors, vectors_there, most_times=most_times),
        *(
            Figure(
                name=f"PostgreSQL: jobs of {daemons} daemons",
                value=rate,
                unit="/s",
                baseline=drained[0],
                bar=at_least(LEAST_TIMES_ONE * drained[0], f"{LEAST_TIMES_ONE:g} x one's")
                if options.large and daemons == DAEMONS[-1]
                else None,
            )
            for daemons, rate in zip(DAEMONS, drained, strict=True)
        ),
    ]


@asynccontextmanager
async def _both() -> AsyncIterator[tuple[str, list[Storage]]]:
    """The URL of the server, and both engines."""
    with TemporaryDirectory() as folder, running_server(durable=True, settings=SERVER_SETTINGS) as server:
        server.sql("CREATE EXTENSION vector")
        sqlite = await SqliteStorage.open(Path(folder) / "agentctx.db")
        postgresql = await open_server(server.url(), "bench")
        try:
            yield server.url(), [sqlite, postgresql]
        finally:
            await postgresql.close()
            await sqlite.close()


async def _filled(storage: Storage, count: int) -> float:
    """Saves per second of this many clients; each entry then gets a vector."""
    space = await storage.spaces.open(FINGERPRINT)
    await storage.spaces.prepare(space.id, _vectors(1)[0])
    texts = TextSource(seed=3)
    drafts = iter([keyless(texts.text(TEXT_CHARACTERS)) for _ in range(count)])

    async def client() -> None:
        for draft in drafts:
            await storage.entries.save(draft, embed=True)

    began = perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    rate = count / (perf_counter() - began)
    while jobs := await storage.jobs.claim(256, now=wall_clock(), lease_until=wall_clock() + 60_000):
        await storage.jobs.complete(jobs, _vectors(len(jobs)))
    for chore in storage.chores:
        while await chore.step():
            pass
    return rate


async def _drained(storage: Storage, url: str, daemons: int) -> float:
    """Jobs per second of this many daemons, each a process: every vector is stored again."""
    (space,) = await storage.spaces.all()
    await storage.upkeep.rebuild_vectors(space.id)
    arguments = (sys.executable, "-m", "benchmarks.drainer", url)
    running = [
        await asyncio.create_subprocess_exec(
            *arguments, f"drainer-{number}", str(DIMENSION), stdin=PIPE, stdout=PIPE
        )
        for number in range(daemons)
    ]
    for process in running:
        while await _line(process) != b"ready\n":
            pass
    began = perf_counter()
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in running))
    took = perf_counter() - began
    return sum(int(output) for output, _ in outputs) / took


async def _line(process: Process) -> bytes:
    """Return the next line of the process's output. Raises RuntimeError at its end."""
    line = await process.stdout.readline() if process.stdout else b""
    if not line:
        raise RuntimeError("a daemon ended before it was measured")
    return line


async def _save(storage: Storage) -> None:
    await storage.entries.save(keyless(_TEXTS.text(TEXT_CHARACTERS)), embed=False)


async def _by_words(storage: Storage) -> None:
    await storage.search.by_words(_TEXTS.question(), ALL, HITS)


async def _by_vector(storage: Storage) -> None:
    (space,) = await storage.spaces.all()
    await storage.search.by_vector(space.id, _vectors(1)[0], Filter(namespace=ALL.namespace), HITS)


def _vectors(count: int) -> Vectors:
    """Return unit vectors `(count, DIMENSION)` in clusters, like embeddings (cosine .7 to the center)."""
    seeds = _SEEDS[_RANDOM.integers(len(_SEEDS), size=count)]
    return unit_rows(seeds + unit_rows(_noise(count)))


def _noise(count: int) -> Vectors:
    return _RANDOM.standard_normal((count, DIMENSION)).astype(np.float32)


def _compared(
    name: str, here: list[float], there: list[float], *, most_times: float | None = None
) -> list[Figure]:
    bar = at_most(most_times * median(here), f"{most_times:g} x SQLite's") if most_times else None
    return [
        Figure(
            name=f"PostgreSQL: {name}, p50", value=median(there), unit="ms", baseline=median(here), bar=bar
        ),
        Figure(
            name=f"PostgreSQL: {name}, p95",
            value=percentile(there, 95),
            unit="ms",
            baseline=percentile(here, 95),
        ),
    ]


_TEXTS = TextSource(seed=4)
_RANDOM = np.random.default_rng(6)
_SEEDS = unit_rows(_noise(SEEDS))
