"""The overhead of the Python client: an empty request versus raw framing, its import, 10,000 saves."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from time import perf_counter

import httpx

from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client
from benchmarks.daemons import running
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.raw_framing import RawCaller, async_raw_caller, raw_server
from benchmarks.saver import Report
from benchmarks.timing import Action, interleaved_ms, median, percentile

MOST_TIMES_RAW = 2
MOST_IMPORT_MS = 100
_HEALTHZ = "http://agentctx/healthz"
_IMPORTS = {
    "import and Client over Python, fastest": ("pass", "import agentctx; agentctx.Client('/s')"),
    "import and AsyncClient over Python with asyncio, fastest": (
        "import asyncio",
        "import agentctx; agentctx.AsyncClient('/s')",
    ),
}
"""The code that runs without and with a client."""


async def measure(options: Options) -> list[Figure]:
    """Every client requests `/healthz`, which does no work; all calls take turns on one loop."""
    return [
        *await _round_trips(options.size(5_000, 1_000)),
        *_imports(options.size(31, 9)),
        *await _save_all(options.size(10_000, 2_000)),
    ]


async def _round_trips(rounds: int) -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentctx-bench-")))
        raw_path = stack.enter_context(raw_server(folder / "raw.sock"))
        socket = (await stack.enter_async_context(running("none"))).socket
        raw = stack.enter_context(closing(RawCaller(raw_path)))
        client = stack.enter_context(Client(socket))
        bare_httpx = stack.enter_context(
            httpx.Client(
                transport=httpx.HTTPTransport(uds=str(socket)), trust_env=False, follow_redirects=False
            )
        )
        async_raw = await stack.enter_async_context(async_raw_caller(raw_path))
        async_client = await stack.enter_async_context(AsyncClient(socket))
        async_bare_httpx = await stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(uds=str(socket)), trust_env=False, follow_redirects=False
            )
        )
        times = await interleaved_ms(
            (
                _awaitable(raw.ask),
                _awaitable(client.alive),
                _awaitable(partial(bare_httpx.get, _HEALTHZ)),
                async_raw.ask,
                async_client.alive,
                partial(async_bare_httpx.get, _HEALTHZ),
            ),
            rounds=rounds,
        )
    return [*_figures("Client", *times[:3]), *_figures("AsyncClient", *times[3:])]


def _awaitable(act: Callable[[], object]) -> Action:
    async def action() -> object:
        return act()

    return action


def _figures(name: str, raw: list[float], own: list[float], bare_httpx: list[float]) -> list[Figure]:
    baseline = median(raw)
    bar = at_most(MOST_TIMES_RAW * baseline, f"{MOST_TIMES_RAW} x raw framing")
    return [
        Figure(name=f"{name}: raw framing, p50", value=baseline, unit="ms"),
        Figure(name=f"{name}: empty request, p50", value=median(own), unit="ms", baseline=baseline, bar=bar),
        Figure(name=f"{name}: empty request, p95", value=percentile(own, 95), unit="ms"),
        Figure(
            name=f"{name}: the same through bare httpx, p50",
            value=median(bare_httpx),
            unit="ms",
            baseline=baseline,
        ),
    ]


def _imports(rounds: int) -> list[Figure]:
    """Importing the package and making a client, beyond what the interpreter, and asyncio, need to start.

    The same work each time: what is over the fastest run is the machine's.
    """
    times: dict[str, list[float]] = {code: [] for pair in _IMPORTS.values() for code in pair}
    for _ in range(rounds):
        for code, took in times.items():
            took.append(_python_ms(code))
    figures = []
    for name, (bare, whole) in _IMPORTS.items():
        baseline = min(times[bare])
        bar = at_most(MOST_IMPORT_MS, f"{MOST_IMPORT_MS} ms")
        value = min(times[whole]) - baseline
        figures.append(Figure(name=name, value=value, unit="ms", baseline=baseline, bar=bar))
    return figures


def _python_ms(code: str) -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (perf_counter() - started) * 1_000


async def _save_all(count: int) -> list[Figure]:
    async with running("none") as client:
        command = [sys.executable, "-m", "benchmarks.saver", str(client.socket), str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: ASYNC221 - nothing else runs
        report = Report(**json.loads(done.stdout))
    return [
        Figure(name=f"save_all of {count}", value=count / report.seconds, unit="entries/s"),
        Figure(name=f"save_all of {count}: memory growth", value=report.grown_mb, unit="MB"),
        Figure(name=f"save_all of {count}: failed", value=report.failed, unit="", bar=at_most(0, "none")),
    ]
