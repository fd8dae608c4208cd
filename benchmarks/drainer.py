"""`python -m benchmarks.drainer URL NAME DIMENSION`: a daemon's share of the queue, without a provider.

Starts when it reads a line on stdin, and prints how many jobs it completed once the queue is empty.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

from agentctx.embedding_providers.base import unit_rows
from agentctx.times import wall_clock
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage

BATCH = 64
LEASE_MS = 60_000


async def drain(url: str, name: str, dimension: int) -> None:
    storage = await PostgresqlStorage.open(Server(url=url), daemon=name)
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
