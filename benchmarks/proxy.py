"""The latency that the proxy adds to an LLM call, compared with a bare embedding of its question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from agentctx.embedding.providers.base import EmbeddingProvider
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill
from benchmarks.options import Options
from benchmarks.scale import MOST_A_PAIR, copied, mean_pairs
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile
from benchmarks.vendor import fake_vendor

MOST_EMBEDDINGS = 3
"""How many bare embeddings the proxy may add, and `MOST_A_PAIR` for each passage that the judge reads."""
LARGE = 100_000
"""Printed only."""
_PATH = "/v1/chat/completions"
_TIMEOUT_S = 30.0


class Calls:
    """Make LLM calls with new questions, directly to the vendor or through the proxy."""

    def __init__(self, client: httpx.AsyncClient, questions: TextSource) -> None:
        self._client = client
        self._questions = questions
        self.receipts: list[str] = []

    async def whole(self) -> None:
        """Wait for the complete reply."""
        reply = await self._client.post(_PATH, json=self._body(stream=False))
        reply.raise_for_status()
        self.receipts += reply.headers.get_list("x-agentctx-injection")

    async def first_byte(self) -> None:
        """Wait for the first byte of a stream; the rest is read, untimed, before the next call."""
        async with self._client.stream("POST", _PATH, json=self._body(stream=True)) as reply:
            await anext(reply.aiter_raw())

    def _body(self, *, stream: bool) -> dict[str, Any]:
        message = {"role": "user", "content": self._questions.question()}
        return {"model": "gpt-5.4-mini", "stream": stream, "messages": [message]}


async def measure(options: Options) -> list[Figure]:
    figures: list[Figure] = []
    async with default_embedder() as provider:
        for entries in [1_000] if options.quick else [10_000, LARGE]:
            figures += await _measured(provider, entries, options.size(300, 60))
    return figures


async def _measured(provider: EmbeddingProvider, entries: int, rounds: int) -> list[Figure]:
    questions = TextSource(seed=11)
    with fake_vendor() as vendor, daemon_folder(more=_config(vendor)) as folder:
        vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries)

        async def embed() -> object:
            return await provider.embed_query(questions.question())

        async with started(folder) as client, _direct(vendor) as direct, _through(client.socket) as proxy:
            await copied(client, *vectors.shape)
            straight, through = Calls(direct, questions), Calls(proxy, questions)
            actions = (straight.whole, through.whole, straight.first_byte, through.first_byte, embed)
            times = await interleaved_ms(actions, rounds=rounds)
            return _figures(*times, pairs=await mean_pairs(client, through.receipts), entries=entries)


def _figures(
    direct: list[float],
    proxied: list[float],
    first: list[float],
    first_proxied: list[float],
    embeddings: list[float],
    *,
    pairs: float,
    entries: int,
) -> list[Figure]:
    name, bare = f"LLM call, {entries} entries", median(embeddings)
    most = f"({MOST_EMBEDDINGS} + {MOST_A_PAIR} a pair) x embedding"
    bar = None if entries >= LARGE else at_most((MOST_EMBEDDINGS + MOST_A_PAIR * pairs) * bare, most)
    added = median(proxied) - median(direct)
    return [
        Figure(name=f"{name}: added by the proxy, p50", value=added, unit="ms", baseline=bare, bar=bar),
        Figure(name=f"{name}: pairs read by the judge, mean", value=pairs, unit=""),
        Figure(
            name=f"{name}: through the proxy, p50", value=median(proxied), unit="ms", baseline=median(direct)
        ),
        Figure(
            name=f"{name}: through the proxy, p95",
            value=percentile(proxied, 95),
            unit="ms",
            baseline=percentile(direct, 95),
        ),
        Figure(
            name=f"{name}: first streamed byte, p50",
            value=median(first_proxied),
            unit="ms",
            baseline=median(first),
        ),
    ]


def _config(vendor: str) -> str:
    # Even on a loaded machine the call waits for its context, because that time is being measured.
    return f'\n[proxy]\nopenai_url = "{vendor}/openai"\n\n[injection]\ndeadline_ms = 30000\n'


def _direct(vendor: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"{vendor}/openai", headers=_KEY, timeout=_TIMEOUT_S, trust_env=False)


def _through(socket: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    url = "http://agentctx/proxy/openai"
    return httpx.AsyncClient(transport=transport, base_url=url, headers=_KEY, timeout=_TIMEOUT_S)


_KEY = {"authorization": "Bearer any"}
