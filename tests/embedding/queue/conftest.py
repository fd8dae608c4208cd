from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue.worker import EmbeddingQueue
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import MemoryJobs
from tests.embedding.queue.scripted_provider import ScriptedProvider
from tests.embedding.queue.seeded import seeded


@dataclass
class QueueWorld:
    """A clock, a table of jobs and a provider, and queues over them, which are stopped in the end."""

    timer: ManualTimer
    storage: MemoryJobs
    provider: ScriptedProvider
    queues: list[EmbeddingQueue] = field(default_factory=list)

    def queue(self, seed: int = 1, **settings: Any) -> EmbeddingQueue:
        """Create a queue with these settings."""
        queue = EmbeddingQueue(
            self.storage,
            self.provider,
            QueueSettings(**settings),
            clock=self.timer.now,
            timer=self.timer,
            rng=seeded(seed),
        )
        self.queues.append(queue)
        return queue

    async def idle_queue(self, **settings: Any) -> EmbeddingQueue:
        """Start a queue and wait until it has found its table empty."""
        queue = self.queue(**settings)
        queue.start()
        await self.timer.run(queue.idle(), limit_ms=0)
        return queue


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def storage() -> MemoryJobs:
    return MemoryJobs()


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
async def world(
    timer: ManualTimer, storage: MemoryJobs, provider: ScriptedProvider
) -> AsyncIterator[QueueWorld]:
    world = QueueWorld(timer, storage, provider)
    yield world
    for queue in world.queues:
        if queue.task is None or not (queue.task.done() and queue.task.exception()):
            await queue.stop(timeout=0)


@pytest.fixture(autouse=True)
def logs() -> Any:
    with capture_logs() as captured:
        yield captured
