"""The time that commands take beside the interpreter's, and what an idle daemon costs."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from benchmarks.agents import AGENTCTX
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill
from benchmarks.footprint import compile_own
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median

MOST_TIMES_PYTHON = 8
MOST_TIMES_SEARCH = 10
"""Without the time until the daemon answers the same kind of question."""
MOST_IDLE = 0.001
ENTRIES = 1_000
_SETTLING_S = 5.0
"""After its last request, a daemon has something to write."""


async def measure(options: Options) -> list[Figure]:
    compile_own()
    texts = TextSource(seed=7)
    with daemon_folder() as folder:
        async with default_embedder() as provider:
            await fill(database_in(folder), provider, TextSource(seed=8), ENTRIES)
        async with started(folder) as client:

            async def search() -> None:
                await _run(*AGENTCTX, "search", texts.question(), "--socket", str(client.socket))

            actions = (
                partial(_run, sys.executable, "-c", "pass"),
                partial(_run, *AGENTCTX, "--version"),
                partial(_run, *AGENTCTX, "--help"),
                search,
                lambda: client.search(texts.question()),
            )
            times = await interleaved_ms(actions, rounds=options.size(25, 9), warm_up=2)
            pid = (await client.status()).pid
            await asyncio.sleep(_SETTLING_S)
            idle = await _cpu_share(pid, options.size(20, 5))
    python, version, helped, searched, answered = map(median, times)
    return [
        Figure(name="python -c pass, p50", value=python, unit="ms"),
        _beside(python, "--version", version, MOST_TIMES_PYTHON),
        _beside(python, "--help", helped, MOST_TIMES_PYTHON),
        _beside(python, "search, without the daemon's time", searched - answered, MOST_TIMES_SEARCH),
        Figure(
            name="CPU of an idle daemon",
            value=100 * idle,
            unit="%",
            bar=at_most(100 * MOST_IDLE, "of a core"),
        ),
    ]


def _beside(python: float, name: str, value: float, most: int) -> Figure:
    bar = at_most(most * python, f"{most} x python")
    return Figure(name=f"agentctx {name}, p50", value=value, unit="ms", baseline=python, bar=bar)


async def _run(*command: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command} failed: {errors.decode()}")


async def _cpu_share(pid: int, seconds: float) -> float:
    """Return the share of a core that a process uses in the next seconds."""
    before = _cpu_ns(pid)
    await asyncio.sleep(seconds)
    return (_cpu_ns(pid) - before) / (seconds * 1e9)


def _cpu_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text("ascii").split()[0]) for task in tasks)
