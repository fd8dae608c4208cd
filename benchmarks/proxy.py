"""The latency that the proxy adds to an LLM call, compared with an embedding plus a vec0 search."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.storage.file import vec0
from agentctx.wire import DEFAULT_NAMESPACE
from benchmarks.daemons import daemon_folder, database_in, started
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill
from benchmarks.options import Options
from benchmarks.scale import copied
from benchmarks.search import POOL, TABLE, bare_table
from benchmarks.texts import TextSource
from benchmarks.timing import Action, interleaved_ms, median, percentile
from benchmarks.vendor import fake_vendor

MOST_BESIDE_MS = 6.0
"""The time limit beside a bare embedding and a bare search, which scans all vectors."""
LARGE = 100_000
MOST_BESIDE_EMBEDDING_MS = 9.0
"""The time limit beside a bare embedding, among `LARGE` entries."""
SCANNED = 10_000
"""Maximum number of vectors in the table of the bare search."""
_PATH = "/v1/chat/completions"
_TIMEOUT_S = 30.0


class Calls:
    """Make LLM calls with new questions, directly to the vendor or through the proxy."""

    def __init__(self, client: httpx.AsyncClient, questions: TextSource) -> None:
        self._client = client
        self._questions = questions
        self.injected = 0

    async def whole(self) -> None:
        """Wait for the complete reply."""
        reply = await self._client.post(_PATH, json=self._body(stream=False))
        reply.raise_for_status()
        self.injected += "x-agentctx-injection" in reply.headers

    async def first_byte(self) -> None:
        """Wait for the first byte of a stream; the rest is read, untimed, before the next call."""
        async with self._client.stream("POST", _PATH, json=self._body(stream=True)) as reply:
            await anext(reply.aiter_raw())

    def _body(self, *, stream: bool) -> dict[str, Any]:
        message = {"role": "user", "content": self._questions.question()}
        return {"model": "gpt-5.4-mini", "stream": stream, "messages": [message]}


async def measure(options: Options) -> list[Figure]:
    provider = create_provider(EmbeddingSettings())
    if provider is None:
        raise RuntimeError("the default provider embeds nothing")
    try:
        figures: list[Figure] = []
        for entries in [2_000] if options.quick else [10_000, LARGE]:
            figures += await _measured(provider, entries, options.size(300, 60))
        return figures
    finally:
        await provider.aclose()


async def _measured(provider: EmbeddingProvider, entries: int, rounds: int) -> list[Figure]:
    questions = TextSource(seed=11)
    with fake_vendor() as vendor, daemon_folder(more=_config(vendor)) as folder:
        vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries)
        with closing(bare_table(folder / "bare.db", vectors[:SCANNED])) as bare:

            async def baseline() -> None:
                vector = await provider.embed_query(questions.question())
                if entries < LARGE:
                    vec0.nearest(bare, TABLE, vector.tobytes(), POOL, namespace=DEFAULT_NAMESPACE)

            async with (
                started(folder) as client,
                _direct(vendor) as direct,
                _through(client.socket) as proxy,
            ):
                await copied(client, *vectors.shape)
                straight, through = Calls(direct, questions), Calls(proxy, questions)
                return await _figures(straight, through, baseline, rounds, entries)


async def _figures(
    straight: Calls, through: Calls, baseline: Action, rounds: int, entries: int
) -> list[Figure]:
    actions = (straight.whole, through.whole, straight.first_byte, through.first_byte, baseline)
    direct, proxied, first, first_proxied, bare = await interleaved_ms(actions, rounds=rounds)
    if not through.injected:
        raise RuntimeError("no call got a receipt")
    name = f"LLM call, {entries} entries"
    beside_ms, what = (
        (MOST_BESIDE_EMBEDDING_MS, "embedding") if entries >= LARGE else (MOST_BESIDE_MS, "bare")
    )
    bar = at_most(median(bare) + beside_ms, f"{what} + {beside_ms:g} ms")
    added = median(proxied) - median(direct)
    return [
        Figure(
            name=f"{name}: added by the proxy, p50", value=added, unit="ms", baseline=median(bare), bar=bar
        ),
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
