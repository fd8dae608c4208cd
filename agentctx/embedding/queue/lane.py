"""One model's path from pending jobs to vectors: its provider, its queue and its space builder.

Each space has its own lane, so that a provider that is down, slow or throttled does not block other models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.space_builder import Permit, SpaceBuilder, space_fingerprint
from agentctx.embedding.queue.timing import Timer
from agentctx.embedding.queue.worker import EmbeddingQueue
from agentctx.errors import ProviderFailed
from agentctx.storage.base import Storage
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.times import Clock


class Lane:
    """The lane of one model: `builder.open`, then `run` until `queue.stop`.

    Args:
        settings: the settings of the model. `spending` is its cost, or None if nothing is asked over HTTP.
        leads: whether this is the lane that answers.
        permit: see `SpaceBuilder`.
    """

    def __init__(
        self,
        storage: Storage,
        provider: EmbeddingProvider,
        settings: EmbeddingSettings,
        *,
        clock: Clock,
        timer: Timer,
        leads: Callable[[Lane], bool],
        permit: Permit,
        spending: Spending | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self.provider = provider
        self.settings = settings
        self.spending = spending
        self.queue = EmbeddingQueue(
            storage.jobs,
            provider,
            settings.queue,
            space=lambda: self.space,
            clock=clock,
            timer=timer,
            telemetry=telemetry,
        )
        self.builder = SpaceBuilder(
            storage,
            provider,
            self.queue,
            timer=timer,
            leads=lambda: leads(self),
            permit=permit,
            telemetry=telemetry,
        )

    @property
    def space(self) -> int:
        """The space being filled. It exists once the lane is open."""
        if self.builder.space is None:
            raise RuntimeError("a lane is opened before it runs")
        return self.builder.space

    @property
    def fingerprint(self) -> dict[str, str | int]:
        return space_fingerprint(self.provider)

    async def embed_query(self, text: str) -> Vectors:
        """Embed a question; one that fails, or takes too long for its asker, makes the provider suspect."""
        try:
            return await self.provider.embed_query(text)
        except (ProviderFailed, asyncio.CancelledError):
            self.suspect()
            raise

    async def answered(self) -> Vectors:
        """Wait until the model has answered; return the canary's vector."""
        return await self.builder.answered()

    def is_well(self) -> bool:
        """Whether the provider embeds what it is given."""
        return self.queue.status().state == "ok"

    def suspect(self) -> None:
        """Find out whether the provider is well, because a call elsewhere has failed."""
        self.queue.suspect()

    async def run(self) -> None:
        """Fill the space until `queue.stop`. A bug in either task is raised and ends the other task."""
        async with asyncio.TaskGroup() as tasks:
            building = tasks.create_task(self.builder.run(), name="space builder")
            await self.queue.run()
            building.cancel()
