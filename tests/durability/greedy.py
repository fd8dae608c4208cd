"""What a client that asks for as much as it can costs the others: their slowest answers with and without it.

A figure, not a verdict: it is as much about the machine as about the daemon.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from agentctx import AsyncClient

PLACE = "greed"
POLITE = 20
TURNS = 10
PAUSE_S = 0.05
"""Between two requests of a polite client."""
CONNECTIONS = 16
"""Of the greedy one, each with a request under way all the time."""
STARTED_S = 30.0


def cost_of_greed(socket: Path) -> dict[str, float | str]:
    """Figures: p99 of polite clients in milliseconds, alone and beside a greedy one, and the ratio."""
    alone = asyncio.run(_polite_p99_ms(socket))
    with _greedy_process(socket):
        beside = asyncio.run(_polite_p99_ms(socket))
    return {
        "p99 ms of 20 polite clients": f"{alone:.0f}",
        "beside a greedy one": f"{beside:.0f}",
        "ratio": f"{beside / alone:.1f}",
    }


def p99(values: Sequence[float]) -> float:
    """The smallest value that 99 in 100 are not above."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


async def _polite_p99_ms(socket: Path) -> float:
    took: list[float] = []

    async def client(number: int) -> None:
        async with AsyncClient(socket, timeout_s=60.0) as client:
            for turn in range(TURNS):
                for asked in (
                    lambda: client.save_observation("s", f"client {number} turn {turn}", namespace=PLACE),  # noqa: B023 - awaited within the turn
                    lambda: client.search(f"client {number}", limit=3, namespace=PLACE),
                ):
                    began = time.monotonic()
                    await asked()
                    took.append(1_000 * (time.monotonic() - began))
                    await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*map(client, range(POLITE)))
    return p99(took)


@contextmanager
def _greedy_process(socket: Path) -> Iterator[None]:
    """In a process of its own: what it does must not hold up the clock of the others."""
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    process = context.Process(target=_be_greedy, args=(socket, started), daemon=True)
    process.start()
    try:
        assert started.wait(STARTED_S), "the greedy client does not start"
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
