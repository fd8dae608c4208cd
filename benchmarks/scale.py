"""The latency, recall and memory of questions as a memory grows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agentctx.client.async_client import AsyncClient
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.service.rag.retrieval import pool_for
from agentctx.storage.records import SpaceState
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx.wire import API_PREFIX, DEFAULT_NAMESPACE
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Bar, Figure, at_least, at_most
from benchmarks.filling import Place, fill
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

MOST_EMBEDDINGS = {1_000: 1.9, 10_000: 2.2, 100_000: 3.0}
"""How many bare embeddings of a question its answer may take, by number of entries."""
MOST_A_PAIR = 3
"""How many more for each passage that the judge reads."""
LARGE = 1_000_000
MOST_TIMES_MEDIAN = 2.5
LEAST_RECALL = 0.99
SMALL_NAMESPACE = "small"
ONE_IN = 100
TURNS_A_SESSION = 50
_K = 10
_RECALL_QUESTIONS = 50
_TIMEOUT_S = 30.0
_POLL_S = 0.3
"""Time in which the words in memory grow while they are loaded."""
_COPY_TIMEOUT_S = 600.0
POOL = pool_for(EmbeddingSettings().rag.max_results)


class Asked(NamedTuple):
    """Milliseconds of each round."""

    embeddings: list[float]
    searches: list[float]
    contexts: list[float]
    small: list[float]
    pairs: float
    """How many passages the judge read for a context, on average."""


class Asker:
    """Ask new questions over the socket."""

    def __init__(self, transport: AsyncUnixTransport) -> None:
        self.texts = TextSource(seed=7)
        self.receipts: list[str] = []
        """Ids of the receipts of contexts."""
        self._transport = transport

    def ask(self, route: str, namespace: str) -> Callable[[], Awaitable[None]]:
        position = {"position": "tail"} if route == "context" else {}  # with a receipt

        async def asked() -> None:
            question = {"query": self.texts.question(), "namespace": namespace, **position}
            body = json.dumps(question).encode()
            reply = await self._transport.request("POST", f"{API_PREFIX}/{route}", body, {})
            if reply.status != HTTPStatus.OK or (answer := json.loads(reply.body))["degraded"] is not None:
                raise RuntimeError(f"a question was not answered: {reply.body[:500]!r}")
            if position:
                self.receipts.append(answer["injection_id"])

        return asked


async def measure(options: Options) -> list[Figure]:
    sizes = [1_000] if options.quick else [*MOST_EMBEDDINGS, *([LARGE] if options.large else [])]
    figures: list[Figure] = []
    async with default_embedder() as provider:
        for entries in sizes:
            figures += await _measured(provider, entries, options.size(300, 60))
    return figures


async def _measured(provider: EmbeddingProvider, entries: int, rounds: int) -> list[Figure]:
    with daemon_folder() as folder:
        vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries, place_of)
        async with started(folder) as client:
            memory = await copied(client, *vectors.shape)
            asked = await _asked(client, provider, rounds)
        recall = await _recall(database_in(folder), provider, vectors)
    return figures_of(entries, asked, memory, recall)


def place_of(number: int) -> Place:
    """Every hundredth text is in another namespace; all are in sessions."""
    namespace = SMALL_NAMESPACE if number % ONE_IN == 0 else DEFAULT_NAMESPACE
    return Place(namespace, f"s{number // TURNS_A_SESSION}")


def figures_of(entries: int, asked: Asked, memory: int, recall: float) -> list[Figure]:
    """Return the figures of one size, with their bars."""
    name, bare = f"{entries} entries", median(asked.embeddings)
    return [
        Figure(name=f"{name}: bare embedding, p50", value=bare, unit="ms"),
        *_times(f"{name}: search", asked.searches, bare, most_ms(entries, bare)),
        *_times(f"{name}: context", asked.contexts, bare, most_ms(entries, bare, asked.pairs)),
        Figure(name=f"{name}: pairs read by the judge for a context, mean", value=asked.pairs, unit=""),
        Figure(
            name=f"{name}: search in a namespace of 1 %, p50",
            value=median(asked.small),
            unit="ms",
            baseline=bare,
            bar=most_ms(entries, bare),
        ),
        Figure(
            name=f"{name}: recall@{_K} of the vectors",
            value=recall,
            unit="",
            bar=at_least(LEAST_RECALL, f"{LEAST_RECALL:g}"),
        ),
        Figure(name=f"{name}: vectors in memory", value=memory / entries, unit="B/entry"),
    ]


def most_ms(entries: int, bare: float, pairs: float | None = None) -> Bar | None:
    """Return the bar of an answer for which the judge, if it was asked, read `pairs` passages on average."""
    if entries not in MOST_EMBEDDINGS:
        return None
    most = MOST_EMBEDDINGS[entries]
    if pairs is None:
        return at_most(most * bare, f"{most:g} x embedding")
    return at_most((most + MOST_A_PAIR * pairs) * bare, f"({most:g} + {MOST_A_PAIR} a pair) x embedding")


def _times(name: str, times: Sequence[float], bare: float, bar: Bar | None) -> list[Figure]:
    p50 = median(times)
    return [
        Figure(name=f"{name}, p50", value=p50, unit="ms", baseline=bare, bar=bar),
        Figure(
            name=f"{name}, p95",
            value=percentile(times, 95),
            unit="ms",
            baseline=p50,
            bar=at_most(MOST_TIMES_MEDIAN * p50, f"{MOST_TIMES_MEDIAN:g} x p50"),
        ),
    ]


async def copied(client: AsyncClient, entries: int, dimension: int) -> int:
    """Ask until all vectors and words are in memory; return the bytes that the vectors use."""
    texts, until, words = TextSource(seed=9), time.monotonic() + _COPY_TIMEOUT_S, 0
    while True:
        await client.search(texts.question())
        status = await client.status()
        has_words = status.word_memory_bytes == words > 0
        if status.vector_memory_bytes >= entries * dimension and has_words:
            return status.vector_memory_bytes
        if time.monotonic() > until:
            raise RuntimeError(f"the vectors and words were not in memory after {_COPY_TIMEOUT_S:g} s")
        words = status.word_memory_bytes
        await asyncio.sleep(_POLL_S)


async def _asked(client: AsyncClient, provider: EmbeddingProvider, rounds: int) -> Asked:
    transport = AsyncUnixTransport(client.socket, _TIMEOUT_S)
    asker = Asker(transport)

    async def embed() -> Vectors:
        return await provider.embed_query(asker.texts.question())

    try:
        times = await interleaved_ms(
            (
                embed,
                asker.ask("search", DEFAULT_NAMESPACE),
                asker.ask("context", DEFAULT_NAMESPACE),
                asker.ask("search", SMALL_NAMESPACE),
            ),
            rounds=rounds,
        )
        embeddings, searches, contexts, small = times
        pairs = await mean_pairs(client, asker.receipts)
        return Asked(embeddings, searches, contexts, small, pairs)
    finally:
        await transport.close()


async def mean_pairs(client: AsyncClient, receipts: Sequence[str]) -> float:
    """Return how many passages the judge read for these injections, on average."""
    found = [(await client.injection(receipt)).candidates for receipt in receipts]
    return sum(each.by_judge for candidates in found for each in candidates) / len(found)


async def _recall(database: Path, provider: EmbeddingProvider, vectors: Vectors) -> float:
    """Return the recall of the nearest ten through the storage's copy, compared with an exhaustive search."""
    storage = await SqliteStorage.open(database)
    try:
        (space,) = [each for each in await storage.spaces.all() if each.state is SpaceState.ACTIVE]
        storage.db.caches.refresh_soon(space.id)
        await storage.db.caches.refreshed()
        numbers = np.arange(len(vectors))
        mine = vectors[numbers % ONE_IN != 0]
        texts, found = TextSource(seed=10), 0
        for _ in range(_RECALL_QUESTIONS):
            query = await provider.embed_query(texts.question())
            farthest = 1 - np.partition(mine @ query, -_K)[-_K]
            hits = await storage.search.by_vector(space.id, query, Filter(namespace=DEFAULT_NAMESPACE), POOL)
            found += sum(hit.distance <= farthest + 1e-5 for hit in hits[:_K])
        return found / (_K * _RECALL_QUESTIONS)
    finally:
        await storage.close()
