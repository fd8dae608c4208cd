"""How soon an idle daemon finds a saved text."""

from __future__ import annotations

from time import perf_counter

from agentctx.client.async_client import AsyncClient
from agentctx.wire import Passage
from benchmarks.daemons import drained, running
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import interleaved_ms, median, percentile

MOST_EMBEDDINGS = 1.6
"""How many bare embeddings of its text a save that waits for it may take, beside a plain save."""
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
    return [
        *await _waits(options.size(100, 30)),
        Figure(
            name="found by words in the next request",
            value=found,
            unit=f"of {by_words}",
            bar=at_least(by_words, "all"),
        ),
        Figure(name="found by meaning after, p50", value=median(times), unit="ms"),
        Figure(name="found by meaning after, p95", value=percentile(times, 95), unit="ms"),
    ]


async def _waits(rounds: int) -> list[Figure]:
    """Save with and without waiting; without, to another daemon, whose model is not busy then."""
    texts = TextSource(seed=5)

    async def embed() -> object:
        return await provider.embed([texts.text(_TEXT_CHARACTERS)])

    async def save() -> object:
        return await plain.save_observation("bench", texts.text(_TEXT_CHARACTERS))

    async def save_and_wait() -> None:
        saved = await client.save_observation("bench", texts.text(_TEXT_CHARACTERS), wait="embedded")
        if saved.embedding != "done":
            raise RuntimeError("a save did not wait until it was embedded")

    async with default_embedder() as provider, running("none") as plain, running() as client:
        bare, saves, waits = map(median, await interleaved_ms((embed, save, save_and_wait), rounds=rounds))
    bar = at_most(MOST_EMBEDDINGS * bare + saves, f"{MOST_EMBEDDINGS} x embedding + save")
    return [
        Figure(name="save until embedded, p50", value=waits, unit="ms", baseline=bare + saves, bar=bar),
        Figure(name="bare embedding of the text, p50", value=bare, unit="ms"),
        Figure(name="save without waiting, p50", value=saves, unit="ms"),
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
