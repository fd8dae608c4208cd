"""Drafts, clocks and vectors for storage tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentctx.chunking.base import Span
from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import Draft
from agentctx.storage.search import Filter

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
