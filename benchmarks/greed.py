"""How much a greedy client slows down the others: their slowest answers with and without it.

Each client is a process, as agents are, because the daemon distinguishes processes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from agentctx.cli.demo_daemon import DemoDaemon
from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client
from benchmarks.daemons import daemon_folder
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.timing import percentile

PLACE = "greed"
MOST_RATIO = 2
POLITE = 20
TURNS = 10
PAUSE_S = 0.05
"""Pause between two requests of a polite client."""
CONNECTIONS = 16
"""Connections of the greedy client, each with a request in flight at all times."""
PATIENCE_S = 60.0

_PROCESSES = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Cost:
    """The slowest of 100 requests, in milliseconds."""

    alone_ms: float
    contended_ms: float

    @property
    def ratio(self) -> float:
        return self.contended_ms / self.alone_ms


async def measure(options: Options) -> list[Figure]:
    costs = []
    for _ in range(options.size(3, 1)):
        with daemon_folder("fake") as folder, DemoDaemon(folder) as daemon:
            with Client(daemon.socket) as client:
                daemon.wait_ready(client)
            costs.append(await asyncio.to_thread(cost_of_greed, daemon.socket))
    cost = sorted(costs, key=lambda cost: cost.ratio)[len(costs) // 2]
    return [
        Figure(
            name=f"request of {POLITE} polite clients next to a greedy one, p99",
            value=cost.contended_ms,
            unit="ms",
            baseline=cost.alone_ms,
            bar=at_most(MOST_RATIO * cost.alone_ms, f"{MOST_RATIO} x alone"),
        )
    ]


def cost_of_greed(socket: Path) -> Cost:
    """Return the p99 of the polite clients in milliseconds, without and with a greedy one."""
    _PROCESSES.set_forkserver_preload([__name__])
    alone = _polite_p99_ms(socket)
    with _greedy_process(socket):
        return Cost(alone, _polite_p99_ms(socket))


def _polite_p99_ms(socket: Path) -> float:
    together = _PROCESSES.Barrier(POLITE)
    ends = []
    for number in range(POLITE):
        ours, theirs = _PROCESSES.Pipe(duplex=False)
        _PROCESSES.Process(target=_be_polite, args=(socket, number, together, theirs), daemon=True).start()
        theirs.close()
        ends.append(ours)
    took: list[float] = []
    for end in ends:
        assert end.poll(PATIENCE_S), "a polite client does not end"
        took += end.recv()
    return percentile(took, 99)


def _be_polite(socket: Path, number: int, together: Barrier, result: Connection) -> None:
    result.send(asyncio.run(_ask_now_and_then(socket, number, together)))


async def _ask_now_and_then(socket: Path, number: int, together: Barrier) -> list[float]:
    """Return the duration of each request in milliseconds."""
    took: list[float] = []
    async with AsyncClient(socket, timeout_s=PATIENCE_S) as client:
        await client.search("warm", limit=3, namespace=PLACE)
        together.wait(PATIENCE_S)
        for turn in range(TURNS):
            for asked in (
                lambda: client.save_observation("s", f"client {number} turn {turn}", namespace=PLACE),  # noqa: B023 - awaited within the turn
                lambda: client.search(f"client {number}", limit=3, namespace=PLACE),
            ):
                began = time.monotonic()
                await asked()
                took.append(1_000 * (time.monotonic() - began))
                await asyncio.sleep(PAUSE_S)
    return took


@contextmanager
def _greedy_process(socket: Path) -> Iterator[None]:
    started = _PROCESSES.Event()
    process = _PROCESSES.Process(target=_be_greedy, args=(socket, started), daemon=True)
    process.start()
    try:
        assert started.wait(PATIENCE_S), "the greedy client does not start"
        yield
    finally:
        process.kill()
        process.join()


def _be_greedy(socket: Path, started: Event) -> None:
    asyncio.run(_flood(socket, started))


async def _flood(socket: Path, started: Event) -> None:
    async def connection(number: int) -> None:
        turn = 0
        async with AsyncClient(socket, timeout_s=60.0) as client:
            while True:
                await client.save_observation("s", f"connection {number} turn {turn}", namespace=PLACE)
                await client.search(f"connection {number} turn", limit=10, namespace=PLACE)
                turn += 1
                started.set()

    await asyncio.gather(*map(connection, range(CONNECTIONS)))
