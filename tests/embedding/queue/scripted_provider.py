"""A provider that replies as a test scripts it, unchecked."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentctx.embedding.providers.base import ProviderLimits
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

DIMENSION = 8


def vector_of(text: str) -> Vectors:
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    vector = digest.astype(np.float64) + 1
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def good_reply(texts: Sequence[str]) -> Vectors:
    return np.stack([vector_of(text) for text in texts])


def failing(
    disposition: Disposition = Disposition.RETRY, retry_after_s: float | None = None
) -> Callable[[Sequence[str]], Vectors]:
    def answer(_texts: Sequence[str]) -> Vectors:
        raise ProviderFailed(f"scripted {disposition}", disposition=disposition, retry_after_s=retry_after_s)

    return answer


class ScriptedProvider:
    """`answer` creates every reply. While `gate` is closed, calls hang."""

    id = "scripted"
    name = "scripted"
    model = "scripted"
    dimension = DIMENSION
    cpu_seconds = 0.0
    limits = ProviderLimits(max_inputs=2_048)
    fingerprint: Mapping[str, str | int] = {"provider": "scripted"}

    def __init__(self, answer: Callable[[Sequence[str]], Vectors] = good_reply) -> None:
        self.answer = answer
        self.calls: list[list[str]] = []
        self.max_concurrent = 0
        self.hanging = 0
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def sizes(self) -> list[int]:
        return [len(call) for call in self.calls]

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        self.hanging += 1
        self.max_concurrent = max(self.max_concurrent, self.hanging)
        try:
            await self.gate.wait()
            return self.answer(texts)
        finally:
            self.hanging -= 1

    async def embed_query(self, text: str) -> Vectors:
        return vector_of(text)

    async def aclose(self) -> None:
        self.gate.set()
