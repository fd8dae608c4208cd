"""How soon an idle daemon finds a saved text."""

from __future__ import annotations

from time import perf_counter

from agentctx.client.async_client import AsyncClient
from agentctx.wire import Passage
from benchmarks.daemons import drained, running
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median, percentile

MOST_MS = 150
_TEXT_CHARACTERS = 300


async def measure(options: Options) -> list[Figure]:
    texts = TextSource(seed=4)
    by_words, by_meaning = options.size(200, 50), options.size(100, 30)
    async with running() as client:
        found = 0
        for _ in range(by_words):
            name = texts.name()
            entry = await _save(client, texts, name)
            found += await _hit(client, name, entry) is not None
        await drained(client)
        times = [await _until_embedded_ms(client, texts) for _ in range(by_meaning)]
    bar = at_most(MOST_MS, f"{MOST_MS} ms")
    return [
        Figure(
            name="found by words in the next request",
            value=found,
            unit=f"of {by_words}",
            bar=at_least(by_words, "all"),
        ),
        Figure(name="found by meaning after, p50", value=median(times), unit="ms", bar=bar),
        Figure(name="found by meaning after, p95", value=percentile(times, 95), unit="ms"),
    ]


async def _until_embedded_ms(client: AsyncClient, texts: TextSource) -> float:
    """Return the time from the acknowledgement of a save to the first answer that has a distance for it."""
    name = texts.name()
    entry = await _save(client, texts, name)
    acknowledged = perf_counter()
    while (hit := await _hit(client, name, entry)) is None or hit.distance is None:
        pass
    return (perf_counter() - acknowledged) * 1_000


async def _save(client: AsyncClient, texts: TextSource, name: str) -> str:
    text = f"{texts.text(_TEXT_CHARACTERS)} {name}."
    return (await client.save_observation("bench", text)).id


async def _hit(client: AsyncClient, name: str, entry: str) -> Passage | None:
    results = (await client.search(name)).results
    return next((hit for hit in results if hit.id == entry), None)
