"""Fill a database with thousands of vectors without embedding as many texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agentctx.embedding.providers.base import EmbeddingProvider, check_reply, unit_rows
from agentctx.embedding.providers.canary import CANARY
from agentctx.service.stores.base import SaveContext
from agentctx.service.stores.typed import MemoryStore
from agentctx.storage.chunk_texts import TEMPLATE
from agentctx.storage.records import Job, SaveOutcome, Space
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.vectors import Vectors
from agentctx.times import wall_clock
from agentctx.wire import DEFAULT_NAMESPACE
from benchmarks.texts import TextSource

SESSION = "bench"
SEEDS = 300
TEXT_CHARACTERS = 400
"""A text of one chunk."""
_AT_ONCE = 200


class Place(NamedTuple):
    """Where to save a text."""

    namespace: str = DEFAULT_NAMESPACE
    session: str = SESSION


async def open_own_space(storage: SqliteStorage, provider: EmbeddingProvider) -> Space:
    """Return the space that a daemon with this provider uses."""
    space = await storage.spaces.open({**provider.fingerprint, "template": TEMPLATE})
    canary = check_reply(await provider.embed([CANARY]), count=1, dimension=0)[0]
    return await storage.spaces.prepare(space.id, canary)


async def vectors_like_texts(provider: EmbeddingProvider, texts: TextSource, count: int) -> Vectors:
    """Return unit vectors `(count, dimension)`: vectors of hundreds of texts and noise (cosine .7)."""
    seeds = await provider.embed([texts.text(TEXT_CHARACTERS) for _ in range(min(SEEDS, count))])
    noise = np.random.default_rng(5).standard_normal((count, seeds.shape[1])).astype(np.float32)
    return unit_rows(seeds[np.arange(count) % len(seeds)] + unit_rows(noise))


async def fill(
    database: Path,
    provider: EmbeddingProvider,
    texts: TextSource,
    count: int,
    place: Callable[[int], Place] = lambda _: Place(),
) -> Vectors:
    """Save `count` texts of one chunk with a vector each; return the vectors. `place` takes its number."""
    vectors = await vectors_like_texts(provider, texts, count)
    storage = await SqliteStorage.open(database)
    try:
        await open_own_space(storage, provider)
        for start in range(0, count, _AT_ONCE):
            part = vectors[start : start + _AT_ONCE]
            jobs = await save(storage, texts, len(part), place, start)
            await storage.jobs.complete(jobs, part)
    finally:
        await storage.close()
    return vectors


async def save(
    storage: SqliteStorage,
    texts: TextSource,
    count: int,
    place: Callable[[int], Place] = lambda _: Place(),
    first: int = 0,
) -> list[Job]:
    """Save `count` texts of one chunk; return their pending jobs. `place` takes numbers from `first` on."""
    jobs: list[Job] = []
    store = MemoryStore(storage, jobs.extend, clock=wall_clock)
    for start in range(0, count, _AT_ONCE):
        batch = [texts.text(TEXT_CHARACTERS) for _ in range(min(_AT_ONCE, count - start))]
        await asyncio.gather(
            *(_save(store, place(number), text) for number, text in enumerate(batch, first + start))
        )
    if len(jobs) != count:
        raise RuntimeError(f"{count} texts became {len(jobs)} chunks, one each was expected")
    return jobs


async def _save(store: MemoryStore, place: Place, text: str) -> SaveOutcome:
    return await store.save_observation(place.session, text, context=SaveContext(namespace=place.namespace))
