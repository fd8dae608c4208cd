"""How many concurrent saves share one commit."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

from agentctx.client.async_client import AsyncClient
from benchmarks.daemons import running
from benchmarks.figures import Figure, at_least
from benchmarks.options import Options
from benchmarks.texts import TextSource

CLIENTS = 16
LEAST_SAVES_A_COMMIT = 8
LEAST_SAVES_A_SECOND = 1_000
_WARM_UP = 20
_TEXT_CHARACTERS = 500


async def measure(options: Options) -> list[Figure]:
    """Run clients that save again as soon as they get a reply."""
    count = options.size(200, 50)
    return [
        *await _shared("none", count, f"saves a commit, {CLIENTS} clients", judged=True),
        *await _shared("embedded", count, f"saves a commit, {CLIENTS} clients, embedding", judged=False),
    ]


async def _shared(provider: str, count: int, name: str, *, judged: bool) -> list[Figure]:
    async with running(provider) as watcher:
        await _save_all(watcher.socket, _WARM_UP, seed=1)
        before = (await watcher.status()).database.commits
        started = perf_counter()
        await _save_all(watcher.socket, count, seed=2)
        elapsed_s = perf_counter() - started
        commits = (await watcher.status()).database.commits - before
    saves = CLIENTS * count
    shared = at_least(LEAST_SAVES_A_COMMIT, "a commit for 8 saves")
    fast = at_least(LEAST_SAVES_A_SECOND, "1,000 a second")
    return [
        Figure(name=name, value=saves / commits, unit="saves", bar=shared if judged else None),
        Figure(name=f"{name}: rate", value=saves / elapsed_s, unit="saves/s", bar=fast if judged else None),
    ]


async def _save_all(socket: Path, count: int, *, seed: int) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(socket)) for _ in range(CLIENTS)]
        # Texts are created in advance: a client that generates one would delay the other clients.
        source = TextSource(seed)
        texts = [[source.text(_TEXT_CHARACTERS) for _ in range(count)] for _ in clients]
        await asyncio.gather(*map(_save_in_turn, clients, texts))


async def _save_in_turn(client: AsyncClient, texts: list[str]) -> None:
    for text in texts:
        await client.save_observation("bench", text)
