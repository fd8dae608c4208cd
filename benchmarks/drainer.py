"""`python -m benchmarks.drainer URL NAME DIMENSION`: a daemon's share of the queue, without a provider.

Starts when it reads a line on stdin, and prints how many jobs it completed once the queue is empty.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

from agentctx.config.schema import Settings
from agentctx.embedding.providers.base import unit_rows
from agentctx.storage.base import Storage
from agentctx.storage.opening import server_engine
from agentctx.times import wall_clock

BATCH = 64
LEASE_MS = 60_000


async def open_server(url: str, daemon: str) -> Storage:
    """Open the database as the daemon with this id."""
    settings = Settings.model_validate({"storage": {"url": url}})
    return await server_engine(url).open_storage(settings, daemon=daemon, clock=wall_clock, migrates=True)


async def drain(url: str, name: str, dimension: int) -> None:
    storage = await open_server(url, name)
    vectors = unit_rows(np.random.default_rng().standard_normal((BATCH, dimension)).astype(np.float32))
    try:
        print("ready", flush=True)
        sys.stdin.readline()
        done = 0
        while jobs := await storage.jobs.claim(BATCH, now=wall_clock(), lease_until=wall_clock() + LEASE_MS):
            done += await storage.jobs.complete(jobs, vectors[: len(jobs)])
        print(done, flush=True)
    finally:
        await storage.close()


if __name__ == "__main__":
    asyncio.run(drain(sys.argv[1], sys.argv[2], int(sys.argv[3])))
