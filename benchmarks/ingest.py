"""The overhead of ingesting, beyond the embedder; it must be small."""

from __future__ import annotations

from time import perf_counter

from benchmarks.daemons import drained, running
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource

MOST_BESIDE = 0.10
_TEXT_CHARACTERS = 1_000
"""About 250 tokens."""
_POLL_S = 1.0
"""Polls are rare, because the daemon's replies are part of the measurement."""


async def measure(options: Options) -> list[Figure]:
    """Let one client save a text per request, and wait until all are embedded."""
    texts = TextSource(seed=3)
    count = options.size(2_000, 150)
    async with running() as client:
        await client.save_observation("warm-up", texts.text(_TEXT_CHARACTERS), wait="embedded")
        before = await client.status()
        started = perf_counter()
        for _ in range(count):
            await client.save_observation("bench", texts.text(_TEXT_CHARACTERS))
        await drained(client, poll_s=_POLL_S)
        elapsed_s = perf_counter() - started
        after = await client.status()
    inside = after.embed_cpu_seconds - before.embed_cpu_seconds
    outside = after.cpu_seconds - before.cpu_seconds - inside
    bar = at_most(MOST_BESIDE * inside, f"{MOST_BESIDE:.0%} of the embedder")
    return [
        Figure(name="ingest: CPU outside the embedder", value=outside, unit="s", baseline=inside, bar=bar),
        Figure(name="ingest: CPU outside the embedder, per text", value=outside / count * 1_000, unit="ms"),
        Figure(name="ingest: chunks per text", value=(after.chunks - before.chunks) / count, unit=""),
        Figure(name="ingest: rate", value=count / elapsed_s, unit="texts/s"),
    ]
