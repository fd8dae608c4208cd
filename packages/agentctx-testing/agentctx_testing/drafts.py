"""Drafts, clocks and vectors for tests of storage, and the calls that most of them make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.base import Storage
from agentctx.storage.records import Draft, SaveOutcome, Space
from agentctx.storage.search import ChunksWithTurns, Filter, Steps, WithTurns
from agentctx.storage.vectors import Vectors
from agentctx.text.chunking.base import Span

START_MS = 1_790_000_000_000
ALL = Filter(namespace="default")
FINGERPRINT: dict[str, str | int] = {"provider": "fake", "model": "one", "dimension": 4}


@dataclass
class ManualClock:
    """A clock in milliseconds that moves only when set."""

    now: int = START_MS

    def __call__(self) -> int:
        return self.now


def draft(content: str = "The deploy window is on Tuesday.", **changes: Any) -> Draft:
    values: dict[str, Any] = {
        "namespace": "default",
        "collection": "knowledge",
        "content": content,
        "spans": (Span(0, len(content)),),
        "chunking": 1,
        "attributes": {"category": "fact", "tags": ["ops"]},
        "labels": "deploy ops",
        "header": "deploy ops",
        "key": "deploy",
        "origin": "agent",
        "trust": "agent",
        "principal": 1000,
        **changes,
    }
    return Draft(**values)


def keyless(content: str, **changes: Any) -> Draft:
    return draft(content, **{"key": None, "labels": "", "header": "", **changes})


def vector(*numbers: float) -> Vectors:
    """Return a unit vector of four numbers; missing ones are 0."""
    padded = np.array([*numbers, 0, 0, 0, 0][:4], dtype=np.float32)
    return np.asarray(padded / np.linalg.norm(padded), dtype=np.float32)


def vectors(*rows: Vectors) -> Vectors:
    return np.stack(rows).astype(np.float32)


async def serving_space(storage: Storage) -> Space:
    space = await storage.spaces.open(FINGERPRINT)
    return await storage.spaces.prepare(space.id, vector(1))


async def save(storage: Storage, entry: Draft) -> SaveOutcome:
    return await storage.entries.save(entry, embed=True)


async def embed(storage: Storage, saved: SaveOutcome, *rows: Vectors) -> int:
    rows = rows or (vector(1),) * len(saved.jobs)
    return await storage.jobs.complete(saved.jobs, vectors(*rows))


async def found_by_words(storage: Storage, question: str, filter_: Filter = ALL) -> list[str]:
    return [hit.entry for hit in (await storage.search.by_words(question, filter_, 50)).hits]


async def with_turns(
    storage: Storage, chunks: list[int], filter_: Filter, space: int | None = None, question: str = ""
) -> ChunksWithTurns:
    """Return the chunks and the turns around them, read by a single step."""
    words = QuestionWords(question)

    def steps() -> Steps[ChunksWithTurns]:
        query = None if space is None else vector(1)
        around: ChunksWithTurns = yield WithTurns(chunks, filter_, query, words)
        return around

    return await storage.search.follow(steps, space)


async def assert_sound(storage: Storage) -> None:
    census = await storage.upkeep.census()
    assert census.violations == 0, census  # noqa: S101 - for tests
