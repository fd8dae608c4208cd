"""How much a backup slows down concurrent saves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

from agentctx.client.async_client import AsyncClient
from agentctx.wire import SaveRequest
from benchmarks.daemons import daemon_folder, started
from benchmarks.figures import Figure, at_least
from benchmarks.options import Options
from benchmarks.texts import TextSource

SAVERS = 4
LEAST_SHARE = 0.8
BACKUP_TIMEOUT_S = 300.0
_TEXT_CHARACTERS = 500


class Savers:
    """Run clients that save as fast as the daemon replies."""

    def __init__(self) -> None:
        self.saved = 0

    async def save_on(self, client: AsyncClient, number: int) -> None:
        texts = TextSource(seed=number)
        while True:
            await client.save_observation("bench", texts.text(_TEXT_CHARACTERS))
            self.saved += 1


async def measure(options: Options) -> list[Figure]:
    """Saves per second while backups are made, and before and after each of them."""
    with daemon_folder("none") as folder:
        async with started(folder) as client, AsyncExitStack() as stack:
            await _fill(client, options.size(10_000, 500))
            savers = Savers()
            clients = [await stack.enter_async_context(AsyncClient(client.socket)) for _ in range(SAVERS)]
            saving = [
                asyncio.create_task(savers.save_on(*pair))
                for pair in zip(clients, range(SAVERS), strict=True)
            ]
            alone, during = await _rates(savers, folder, client, rounds=options.size(8, 2))
            for task in saving:
                task.cancel()
            await asyncio.wait(saving)
    return [
        Figure(
            name=f"saves of {SAVERS} clients during a backup",
            value=during,
            unit="saves/s",
            baseline=alone,
            bar=at_least(LEAST_SHARE * alone, f"{LEAST_SHARE:.0%} of those without"),
        )
    ]


async def _rates(savers: Savers, folder: Path, client: AsyncClient, *, rounds: int) -> tuple[float, float]:
    """Alternate between backups and equally long periods without one."""
    saved, elapsed_s = [0, 0], [0.0, 0.0]
    async with AsyncClient(client.socket, timeout_s=BACKUP_TIMEOUT_S) as backing_up:
        for _ in range(rounds):
            for which in (1, 0):
                before, began = savers.saved, perf_counter()
                if which:
                    await backing_up.backup(str(folder / "backup.db"))
                    took_s = perf_counter() - began
                else:
                    await asyncio.sleep(took_s)
                saved[which] += savers.saved - before
                elapsed_s[which] += perf_counter() - began
    return saved[0] / elapsed_s[0], saved[1] / elapsed_s[1]


async def _fill(client: AsyncClient, count: int) -> None:
    texts = TextSource(seed=9)
    requests = [
        SaveRequest(collection="observation", session="bench", content=texts.text(_TEXT_CHARACTERS))
        for _ in range(count)
    ]
    async for _ in client.save_all(requests):
        pass
