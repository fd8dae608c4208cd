"""Memories in any state of the queue, in which an entry was just saved: its unique word must find it.

Used with both storage engines: `check` makes a memory from a seed, asks in every way, and returns what broke.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agentctx.config.embedding import RagSettings
from agentctx.errors import ProviderFailed
from agentctx.llm.context_source import ContextQuestion, ServiceContextSource
from agentctx.llm.scope import Scope
from agentctx.service.rag.question import Question
from agentctx.service.rag.relevance import Calibration, Scale
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.base import Storage
from agentctx.storage.records import Job
from agentctx.storage.search import Filter, NearestChunk
from agentctx.storage.vectors import Vectors
from agentctx.wire import InjectionPosition, Order
from agentctx_testing.drafts import START_MS

DIMENSION = 8
_COMMON = (
    "amber basalt cedar delta ember fjord granite harbor what is server clock error deploy tls when last "
    "week planner handshake 7000 7 f"
)
COMMON = tuple(_COMMON.split())
SYMBOLS = "\U0001f680\U0001f6f8"
UNIQUE = (
    "zyxxy99", "ERR_7000_TLS_HANDSHAKE", "frobnicateTheClock", "tok7f3a9c", "x-ray-77", "v2.13.7",
    "na\u00efvet\u00e9", "\u6771\u4eac\u5854", SYMBOLS, "\ufb01nanzierung", "planner.error.zq",
)  # fmt: skip
QUESTIONS = ("{}", "{}", "What is {}?")
SESSIONS = ("", "s1", "s2")
ORDERS: tuple[Order, ...] = ("relevance", "distance")
ROUNDED = 0.011
"""How far rounded distances may be off."""


class Questioner:
    """Embeds every question as one vector, or fails."""

    def __init__(self, vector: Vectors, *, is_down: bool) -> None:
        self._vector, self._is_down = vector, is_down

    async def embed_query(self, text: str) -> Vectors:
        if self._is_down:
            raise ProviderFailed("It is down.")
        return self._vector


@dataclass
class Memory:
    """Saves entries with random texts, vectors and states of their jobs."""

    storage: Storage
    rng: random.Random
    space: int
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stores = EntryStore(self.storage, self.jobs.extend, clock=lambda: START_MS)
        self.query = self.vector()

    def vector(self) -> Vectors:
        values = np.array([self.rng.gauss(0, 1) for _ in range(DIMENSION)], np.float32)
        return np.asarray(values / np.linalg.norm(values), np.float32)

    async def fill(self, namespace: str, session: str) -> None:
        texts = [self._text() for _ in range(self.rng.choice([0, 1, 5, 40, 60]))]
        await asyncio.gather(*(self.save(text, namespace, session, at) for at, text in enumerate(texts)))
        for state in ("buried", "leased", "pending"):
            left = self.rng.sample(self.jobs, len(self.jobs) // self.rng.choice([2, 8, 50]))
            self.jobs[:] = [job for job in self.jobs if job not in left]
            await self.settle(state, left)
        await self.settle("done", self.jobs)
        self.jobs.clear()

    def _text(self) -> str:
        words = self.rng.choices(COMMON, k=self.rng.choice([1, 4, 12, 40]))
        return f"{' '.join(words)}{self.rng.choice(['', '', '?'])}"

    async def save(self, text: str, namespace: str, session: str | None, number: int = 0, **more: Any) -> str:
        """Save a turn of the session, another one's, or knowledge, which it is without a session."""
        of = None if session is None else self.rng.choice([session, *SESSIONS])
        where = SaveContext(namespace=namespace, session=of or None)
        if where.session:
            saved = await self.stores.save_fields("observation", {"content": text}, where)
        else:
            fields = {"content": text, "key": f"k{number}", **more}
            saved = await self.stores.save_fields("knowledge", fields, where)
        return saved.id

    async def settle(self, state: str, jobs: Sequence[Job]) -> None:
        if state == "done" and jobs:
            await self.storage.jobs.complete(jobs, np.stack([self._near_or_far() for _ in jobs]))
        elif state == "buried":
            for job in jobs:
                await self.storage.jobs.bury(job, "no good")
        elif state == "leased" and jobs:
            await self.storage.jobs.claim(len(jobs), now=START_MS, lease_until=START_MS + 60_000)

    def _near_or_far(self) -> Vectors:
        vector = self.vector() + self.rng.choice([0, 0, 1, 5]) * self.query
        return np.asarray(vector / np.linalg.norm(vector), np.float32)


async def opened_space(storage: Storage) -> int:
    space = await storage.spaces.open({"provider": "fake", "model": "random", "dimension": DIMENSION})
    await storage.spaces.prepare(space.id, np.eye(1, DIMENSION, dtype=np.float32)[0])
    return space.id


async def check(storage: Storage, space: int, seed: int) -> list[str]:
    """Return which of the promises are broken in the memory of this seed."""
    rng = random.Random(seed)
    memory = Memory(storage, rng, space)
    namespaces = [f"m{seed}-{number}" for number in range(rng.choice([1, 1, 3]))]
    for namespace in namespaces:
        await memory.fill(namespace, rng.choice(SESSIONS))
    word, home = rng.choice(UNIQUE), rng.choice(namespaces)
    around = rng.choices(COMMON, k=rng.choice([0, 3, 30, 120]))
    if rng.random() < 0.2:  # the word is in the cue alone, and only the text is embedded
        target = await memory.save(" ".join([*around, "amber"]), home, None, 10_000, cues=[f"delta {word}"])
        await storage.jobs.complete(memory.jobs[:-1], np.stack([memory.vector() for _ in memory.jobs[:-1]]))
        del memory.jobs[:-1]
    else:
        around.insert(rng.randint(0, len(around)), word)
        cues = {"cues": ["amber fjord"]} if rng.random() < 0.3 else {}
        target = await memory.save(" ".join(around), home, rng.choice(SESSIONS), 10_000, **cues)
        if len(memory.jobs) > 1 and rng.random() < 0.5:  # only its cue is embedded
            await storage.jobs.complete([memory.jobs.pop()], memory.query[np.newaxis])
    await memory.settle(rng.choice(["pending", "leased", "buried"]), memory.jobs)
    is_down = rng.random() < 0.15
    background = np.stack([memory.vector() for _ in range(12)])
    calibration = rng.choice([None, Calibration(Scale(), background)])
    questioner = Questioner(memory.query, is_down=is_down)
    rag = RAGService(storage, None, lambda: ServingModel(space, None, questioner, calibration))
    text = word if word == SYMBOLS else rng.choice(QUESTIONS).format(word)
    case = _Case(rag, target, text, namespaces, rng.randint(1, 8))
    broken = await case.by_relevance()
    if word != SYMBOLS:  # which are no subject of a prompt
        broken += await case.in_context()
    if not is_down:
        nearest = [await storage.search.by_vector(space, memory.query, each, 1_000) for each in case.filters]
        broken += await case.by_distance([hit for hits in nearest for hit in hits])
    return [f"seed {seed}, {case.text!r}, limit {case.limit}: {each}" for each in broken]


@dataclass
class _Case:
    rag: RAGService
    target: str
    text: str
    namespaces: Sequence[str]
    limit: int

    @property
    def filters(self) -> list[Filter]:
        return self.question("relevance").filters

    def question(self, order: Order, position: InjectionPosition | None = None) -> Question:
        first, *also = self.namespaces
        asked = Question(text=self.text, filter=Filter(namespace=first), also=tuple(also), limit=self.limit)
        return replace(asked, order=order, position=position)

    async def by_relevance(self) -> list[str]:
        hits = (await self.rag.retrieve(self.question("relevance"))).hits
        return [] if hits and hits[0].entry.id == self.target else [f"by relevance: {_shown(hits)}"]

    async def by_distance(self, nearest: Sequence[NearestChunk]) -> list[str]:
        hits = (await self.rag.retrieve(self.question("distance"))).hits
        broken = [] if self.target in {hit.entry.id for hit in hits} else ["by distance: it is missing"]
        best: dict[str, float] = {}
        for hit in nearest:
            best[hit.entry] = min(hit.distance, best.get(hit.entry, hit.distance))
        others = [hit.distance for hit in hits if hit.entry.id != self.target]
        wanted = sorted(distance for entry, distance in best.items() if entry != self.target)
        expected = wanted[: self.limit - 1]
        measured = [distance for distance in others if distance is not None]
        if len(measured) != len(expected) or not np.allclose(measured, expected, atol=ROUNDED):
            broken.append(f"by distance: {measured}, not {expected}")
        return broken

    async def in_context(self) -> list[str]:
        broken = []
        positions: tuple[InjectionPosition | None, ...] = (None, "tail", "system")
        for position in positions:
            for order in ORDERS:
                context = await self.rag.context(self.question(order, position), budget_tokens=20_000)
                ids = [hit.entry.id for hit in context.hits]
                if self.target not in ids or (order == "relevance" and ids[0] != self.target):
                    broken.append(f"in context at {position} by {order}: {_shown(context.hits)}")
        if len(self.namespaces) == 1:
            source = ServiceContextSource(self.rag, RagSettings(budget_tokens=20_000))
            scope = Scope(namespaces=tuple(self.namespaces))
            given = await source.context(ContextQuestion(text=self.text, scope=scope))
            if given.ids[:1] != (self.target,):
                broken.append(f"adapter: {given.ids}")
        return broken


def _shown(hits: Sequence[Any]) -> Mapping[int, str]:
    return {at: f"{hit.content[:30]!r} {hit.distance} {hit.relevance:.2f}" for at, hit in enumerate(hits[:3])}
