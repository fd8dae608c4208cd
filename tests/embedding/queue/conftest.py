from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.config.embedding import QueueSettings
from agentctx.embedding.queue.worker import EmbeddingQueue
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.memory_jobs import MemoryJobs
from tests.embedding.queue.scripted_provider import ScriptedProvider
from tests.embedding.queue.seeded import seeded

MakeQueue = Callable[..., EmbeddingQueue]


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
async def make_queue(
    timer: ManualTimer, storage: MemoryJobs, provider: ScriptedProvider
) -> AsyncIterator[MakeQueue]:
    """Create queues over the fixtures, with settings as keywords; stop all of them at the end."""
    made: list[EmbeddingQueue] = []

    def make(seed: int = 1, **settings: Any) -> EmbeddingQueue:
        queue = EmbeddingQueue(
            storage,
            provider,
            QueueSettings(**settings),
            clock=timer.now,
            timer=timer,
            rng=seeded(seed),
        )
        made.append(queue)
        return queue

    yield make
    for queue in made:
        if queue.task is None or not (queue.task.done() and queue.task.exception()):
            await queue.stop(timeout=0)


@pytest.fixture(autouse=True)
def logs() -> Any:
    with capture_logs() as captured:
        yield captured
