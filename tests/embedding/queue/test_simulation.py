"""Random faults everywhere: every job ends embedded, or buried because its text is poison."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue.retry import MOST_TRIES
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import Disposition, ProviderFailed, StorageFailed, StorageFull
from agentctx.storage.records import Job
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import MemoryJobs
from tests.embedding.queue.scripted_provider import ScriptedProvider, good_reply, vector_of
from tests.embedding.queue.seeded import seeded

POISON = ("refused", "unembeddable", "not a number")


class World:
    """A queue, its storage and its provider, all of which fail at random while `is_rough`."""

    def __init__(self, seed: int) -> None:
        self.rng = seeded(seed)
        self.is_rough = True
        self.timer = ManualTimer()
        self.storage = MemoryJobs(fault=self.storage_fault)
        self.provider = ScriptedProvider(self.answer)
        self.settings = QueueSettings(
            batch_size=self.rng.choice([1, 4, 32]),
            capacity=self.rng.choice([2, 8, 64]),
            call_timeout_s=20.0,
        )
        self.expected: dict[int, str] = {}
        self.failed_alone: Counter[str] = Counter()
        self.queue = self.new_queue()

    def new_queue(self) -> EmbeddingQueue:
        queue = EmbeddingQueue(
            self.storage,
            self.provider,
            self.settings,
            clock=self.timer.now,
            timer=self.timer,
            rng=random.Random(self.rng.random()),
        )
        queue.start()
        return queue

    def storage_fault(self, operation: str) -> None:
        if self.is_rough and self.rng.random() < 0.1:
            raise self.rng.choice([StorageFull("full"), StorageFailed(f"{operation} failed")])

    def answer(self, batch: Sequence[str]) -> Vectors:
        try:
            reply = self._answer(batch)
        except Exception:
            self.failed_alone.update(batch if len(batch) == 1 else ())
            raise
        self.failed_alone.update(batch if len(batch) == 1 and len(reply) != 1 else ())
        return reply

    def is_guilty(self, text: str) -> bool:
        """Whether a text may be buried: it is poison, or failed alone as often by chance."""
        return text.startswith(POISON) or self.failed_alone[text] >= MOST_TRIES

    def _answer(self, batch: Sequence[str]) -> Vectors:
        if self.is_rough and self.rng.random() < 0.5:
            self.fail(batch)
        if any("refused" in text for text in batch):
            raise ProviderFailed("refused", disposition=Disposition.SPLIT)
        if any("unembeddable" in text for text in batch):
            raise ProviderFailed("unembeddable", disposition=Disposition.BURY)
        reply = good_reply(batch)
        reply[["not a number" in text for text in batch]] = np.nan
        return reply[:-1] if self.is_rough and self.rng.random() < 0.1 else reply

    def fail(self, batch: Sequence[str]) -> None:
        disposition = self.rng.choice([Disposition.RETRY, Disposition.LATER, Disposition.STOP, None])
        if disposition is None:
            raise ValueError(batch)
        hint = self.rng.choice([None, 0.0, 3.0, 700.0])
        raise ProviderFailed("fault", disposition=disposition, retry_after_s=hint)

    def save(self, *texts: str) -> None:
        jobs = self.storage.save(*texts)
        self.expected |= {job.id: job.text for job in jobs}
        if self.rng.random() < 0.9:
            self.queue.enqueue(jobs)
        else:
            self.queue.recheck_table()

    def random_pending_job(self) -> Job | None:
        return self.rng.choice(self.storage.pending) if self.storage.pending else None

    async def act(self, action: str) -> None:
        number = len(self.expected)
        if action == "save":
            self.save(*(f"text {number + more}" for more in range(self.rng.randint(1, 40))))
        elif action == "poison" and len(self.storage.buried_jobs) + self.poison_left < 4:
            self.save(f"{self.rng.choice(POISON)} {number}")
        elif action == "delete" and (job := self.random_pending_job()):
            self.storage.delete(job)
            del self.expected[job.id]
        elif action == "edit" and (job := self.random_pending_job()):
            changed = self.storage.rewrite(job, f"edited {number}")
            self.expected[job.id] = changed.text
            self.queue.enqueue([changed])
        elif action == "hang":
            self.provider.gate.clear()
            await self.timer.advance(self.rng.choice([1_000, 100_000]))
            self.provider.gate.set()
        elif action == "crash":
            await self.crash()
        elif action == "stop":
            await self.timer.run(self.queue.stop(self.rng.choice([None, 0, 3])))
            self.queue = self.new_queue()
        await self.timer.advance(self.rng.choice([0, 1, 60, 5_000, 400_000]))

    @property
    def poison_left(self) -> int:
        return sum(job.text.startswith(POISON) for job in self.storage.pending)

    async def crash(self) -> None:
        leases = {number: row.leased_until for number, row in self.storage.rows.items()}
        assert self.queue.task is not None
        self.queue.task.cancel()
        await self.timer.until(self.queue.task.done)
        for number, row in self.storage.rows.items():
            row.leased_until = leases.get(number, 0)
        self.queue = self.new_queue()

    async def recover(self) -> None:
        self.is_rough = False
        self.save("the provider works")
        if self.rng.random() < 0.5:
            await self.timer.until(lambda: not self.storage.pending)
        else:
            # This may give up if its breaker is open. The next queue knows of no fault and finishes all jobs.
            await self.timer.run(self.queue.stop())
            self.queue = self.new_queue()
        await self.timer.run(self.queue.stop())


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(
        st.sampled_from(["save", "save", "poison", "delete", "edit", "hang", "crash", "stop", "wait"]),
        max_size=25,
    ),
)
def test_every_job_ends_embedded_or_is_buried_poison(seed: int, actions: list[str]) -> None:
    async def simulate() -> World:
        world = World(seed)
        for action in actions:
            await world.act(action)
        await world.recover()
        return world

    world = asyncio.run(simulate())
    buried = {row.job.id for row in world.storage.buried_jobs}
    assert buried >= {number for number, text in world.expected.items() if text.startswith(POISON)}
    assert all(world.is_guilty(world.expected[number]) for number in buried)
    assert set(world.storage.vectors) == world.expected.keys() - buried
    for number, vector in world.storage.vectors.items():
        assert np.allclose(vector, vector_of(world.expected[number]), atol=1e-6)
    assert all(row.error for row in world.storage.buried_jobs)
    assert world.provider.max_concurrent <= 1


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    async def calls() -> list[list[str]]:
        world = World(seed)
        for action in ("save", "poison", "hang", "save", "crash", "edit", "stop"):
            await world.act(action)
        await world.recover()
        return world.provider.calls

    assert await calls() == await calls()
