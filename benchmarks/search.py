"""The latency of a question among many entries, compared with a bare embedding, and beside ingesting."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from http import HTTPStatus
from pathlib import Path

from agentctx.client.async_client import AsyncClient
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.service.rag.retrieval import pool_for
from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.vectors import Vectors
from agentctx.wire import API_PREFIX, DEFAULT_NAMESPACE
from benchmarks.daemons import daemon_folder, database_in, drained, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_most
from benchmarks.filling import SESSION, fill
from benchmarks.options import Options
from benchmarks.scale import most_ms
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile, timed_ms

POOL = pool_for(EmbeddingSettings().rag.max_results)
"""The daemon takes this many candidates from the vectors, so the plain search does too."""
FEW = 10
TIMEOUT_S = 30.0
MOST_TIMES_IDLE = 1.5
TABLE = "vec_bare"
_BLOCKS = 3


class Questions:
    """Never repeats: a repeated question needs no embedding."""

    def __init__(self, client: AsyncClient, transport: AsyncUnixTransport) -> None:
        self.degraded = 0
        self.client = client
        self._transport = transport
        self._texts = TextSource(seed=7)

    def next(self) -> str:
        return self._texts.question()

    async def ask(self) -> None:
        """Wait for the answer over the socket."""
        body = json.dumps({"query": self.next()}).encode()
        reply = await self._transport.request("POST", f"{API_PREFIX}/search", body, {})
        self.degraded += reply.status != HTTPStatus.OK or json.loads(reply.body)["degraded"] is not None

    async def ask_with_client(self) -> None:
        """Wait until the Python client has decoded the answer."""
        reply = await self.client.search(self.next())
        self.degraded += reply.degraded is not None

    async def times_ms(self, count: int) -> list[float]:
        return [await timed_ms(self.ask) for _ in range(count)]


async def measure(options: Options) -> list[Figure]:
    entries = options.size(10_000, 1_000)
    async with default_embedder() as provider:
        with daemon_folder() as folder:
            vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries)
            with closing(bare_table(folder / "bare.db", vectors)) as bare:
                async with started(folder) as client:
                    transport = AsyncUnixTransport(client.socket, TIMEOUT_S)
                    questions = Questions(client, transport)
                    try:
                        return [
                            *await _idle(questions, provider, bare, options.size(400, 100), entries),
                            *await _busy(questions, options.size(100, 40)),
                        ]
                    finally:
                        await transport.close()


def bare_table(path: Path, vectors: Vectors) -> Connection:
    """Open a read connection as the daemon does, to a table with only these vectors."""
    rows = (
        (number, DEFAULT_NAMESPACE, "observation", SESSION, vector.tobytes())
        for number, vector in enumerate(vectors, 1)
    )
    with closing(open_connection(path)) as writer:
        writer.execute("BEGIN")
        vec0.create_space_table(writer, TABLE, vectors.shape[1])
        vec0.insert_vectors(writer, TABLE, rows)
        writer.execute("COMMIT")
    return open_connection(path, readonly=True)


async def _idle(
    questions: Questions, provider: EmbeddingProvider, bare: Connection, rounds: int, entries: int
) -> list[Figure]:
    embeddings: list[float] = []

    async def nearest(k: int) -> None:
        vector: Vectors

        async def embed() -> None:
            nonlocal vector
            vector = await provider.embed_query(questions.next())

        embeddings.append(await timed_ms(embed))
        vec0.nearest(bare, TABLE, vector.tobytes(), k, namespace=DEFAULT_NAMESPACE)

    actions = (questions.ask, questions.ask_with_client, lambda: nearest(POOL), lambda: nearest(FEW))
    asked, with_client, many, few = await interleaved_ms(actions, rounds=rounds)
    name, alone = f"search, {entries} entries", median(embeddings)
    bar = most_ms(entries, alone)
    return [
        Figure(name=f"{name}, p50", value=median(asked), unit="ms", baseline=alone, bar=bar),
        Figure(name=f"{name}, p95", value=percentile(asked, 95), unit="ms"),
        Figure(name=f"{name}: with the Python client, p50", value=median(with_client), unit="ms"),
        Figure(name=f"{name}: bare embedding and vec0, k = {POOL}, p50", value=median(many), unit="ms"),
        Figure(name=f"{name}: bare embedding and vec0, k = {FEW}, p50", value=median(few), unit="ms"),
    ]


async def _busy(questions: Questions, count: int) -> list[Figure]:
    """Ask the same questions with and without concurrent ingesting, in turns."""
    client = questions.client
    idle: list[float] = []
    busy: list[float] = []
    before = questions.degraded
    for _ in range(_BLOCKS):
        idle += await questions.times_ms(count)
        async with _ingesting(client.socket):
            busy += await questions.times_ms(count)
            pending = (await client.queue()).pending
        if not pending:
            raise RuntimeError("the embedder was not busy while it was measured")
        await drained(client)
    bar = at_most(MOST_TIMES_IDLE * median(idle), f"{MOST_TIMES_IDLE} x idle")
    degraded = questions.degraded - before
    return [
        Figure(
            name="search while ingesting, p50", value=median(busy), unit="ms", baseline=median(idle), bar=bar
        ),
        Figure(
            name="search while ingesting, p95",
            value=percentile(busy, 95),
            unit="ms",
            baseline=percentile(idle, 95),
        ),
        Figure(
            name="search while ingesting: degraded", value=degraded, unit="answers", bar=at_most(0, "none")
        ),
    ]


@asynccontextmanager
async def _ingesting(socket: Path) -> AsyncIterator[None]:
    """Another process keeps the embedder busy from the start."""
    feeder = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.feeder", str(socket), stdout=asyncio.subprocess.PIPE
    )
    try:
        if feeder.stdout is None or not await feeder.stdout.readline():
            raise RuntimeError("the ingesting client ended before the embedder was busy")
        yield
    finally:
        if feeder.returncode is None:
            feeder.terminate()
        await feeder.wait()
