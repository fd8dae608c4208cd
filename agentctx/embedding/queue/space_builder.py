"""Build the space of the configured model: open it, probe the model, detect a changed model, fill the space.

    starting ──probe──► owing ──permit, all embedded──► serving
                 ▲                                        │
                 └──────────── a later start ◄────────────┘

Saves make jobs as soon as the space is open, long before the model has answered once. A complete space
answers if its model leads, and stands by otherwise.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

import structlog

from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.canary import embed_canary, is_same_model
from agentctx.embedding.queue.breaker import LEAST, LONGEST_S
from agentctx.embedding.queue.retry import Backoff
from agentctx.embedding.queue.status import QueueStatus
from agentctx.embedding.queue.timing import Timer, sleep
from agentctx.errors import DeadlineExceeded, ProviderFailed, StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.chunk_texts import TEMPLATE
from agentctx.storage.records import Space, SpaceState
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY, Telemetry

log = structlog.get_logger("agentctx.spaces")

PROBES = Backoff(1.0, LONGEST_S, LEAST)
BACKFILL_STEP = 10_000
FILLING = "model_changed: everything is being embedded with the new model"
"""The only reason that is harmless."""


Permit: TypeAlias = Callable[[Space], Awaitable[None]]
"""Returns when the space may be filled; its cost may need approval first."""


class PausableQueue(Protocol):
    """The part of the queue that the builder needs."""

    def pause(self, reason: str) -> None: ...
    def resume(self) -> None: ...
    def recheck_table(self) -> None: ...
    async def idle(self) -> None: ...
    def status(self) -> QueueStatus: ...


async def _at_once(_: Space) -> None:
    """Permit filling without approval."""


class SpaceBuilder:
    """Builds one space: `open` before the first save is accepted, then `run` in the background.

    Args:
        leads: whether this model is to answer, so that its space is activated when complete.
        permit: awaited before filling a space that has never answered.
    """

    def __init__(
        self,
        storage: Storage,
        provider: EmbeddingProvider,
        lane: PausableQueue,
        *,
        timer: Timer,
        leads: Callable[[], bool] = lambda: True,
        permit: Permit = _at_once,
        rng: random.Random | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self.provider = provider
        self._telemetry = telemetry
        self._storage = storage
        self._lane = lane
        self._timer = timer
        self._leads = leads
        self._permit = permit
        self._rng = rng or random.Random()  # noqa: S311 - spreads probes, guards nothing
        self._space: Space | None = None
        self._has_answered = asyncio.Event()
        self._reason: str | None = "the model has not answered yet"
        self._serves = asyncio.Event()

    @property
    def space(self) -> int | None:
        """The space of the model; None before `open`."""
        return self._space.id if self._space else None

    @property
    def searched(self) -> int | None:
        """The space, if it can answer questions; None if it cannot or while the provider is down."""
        if self._reason is not None or self._space is None or self._lane.status().state == "degraded":
            return None
        return self._space.id

    async def served(self) -> None:
        """Wait until the space can answer questions for the first time."""
        await self._serves.wait()

    async def answered(self) -> Vectors:
        """Wait until the model has answered; return the canary's vector, which identifies it."""
        await self._has_answered.wait()
        canary = self._space.canary if self._space else None
        assert canary is not None  # noqa: S101 - the space is prepared with it
        return canary

    @property
    def cpu_seconds(self) -> float:
        """CPU time spent inside the embedder."""
        return round(self.provider.cpu_seconds, 3)

    @property
    def state(self) -> Literal["ok", "starting", "degraded"]:
        if not self._has_answered.is_set():
            return "starting"
        return "ok" if self.searched is not None else "degraded"

    @property
    def reason(self) -> str | None:
        """Why meaning takes no part in answers, or None if it does. What prevents the filling comes first."""
        status = self._lane.status()
        if self._reason is None or (self._reason == FILLING and status.state == "degraded"):
            return status.reason
        return self._reason

    async def open(self, space: Space | None = None) -> None:
        """Open the space, so that saves make jobs for it, and pause the lane until the model has answered.

        `space` is given if several were opened in one step.
        """
        self._lane.pause("the model has not answered yet")
        self._space = space or await self._open()

    def hold(self, reason: str) -> None:
        """Stop the filling, and give the reason."""
        self._reason = reason
        self._lane.pause(reason)

    async def run(self) -> None:
        """Probe the model until it answers, then complete the space and serve from it."""
        attempts = 0
        while True:
            try:
                with self._telemetry.embedding("probe", 1):
                    canary = await embed_canary(self.provider)
                await self._prepare(canary)
                return await self._fill()
            except (ProviderFailed, StorageFailed, DeadlineExceeded) as error:
                self._reason = f"{error.code}: {error.message}"
                log.warning("space_not_ready", attempts=attempts, reason=error.message, hint=error.hint)
                hint_s = getattr(error, "retry_after_s", None) or 0
            await sleep(self._timer, max(round(hint_s * 1_000), PROBES.delay_ms(attempts, self._rng)))
            attempts += 1

    async def _prepare(self, canary: Vectors) -> None:
        space = self._space or await self._open()
        if space.canary is not None and not is_same_model(space.canary, canary):
            log.warning("model_changed", space=space.id, model=self.provider.model)
            space = self._space = await self._storage.spaces.renew(space.id)
        self._space = await self._storage.spaces.prepare(space.id, canary)
        self._has_answered.set()

    async def _fill(self) -> None:
        space = self._space or await self._open()
        if space.state is SpaceState.ACTIVE:
            self._serve(space)
            self._lane.resume()
        else:
            self._reason = FILLING
        pending = await self._backfill(space)
        log.info("space_ready", space=space.id, state=space.state, backfilled=pending)
        if space.state is SpaceState.BUILDING:
            await self._permit(space)
            self._reason = FILLING
        self._lane.resume()
        self._lane.recheck_table()
        if space.state is not SpaceState.ACTIVE:
            await self._stand_by_when_complete(space)

    async def _backfill(self, space: Space) -> int:
        """Create the missing jobs; if another daemon is doing so, wait, then check that none is left."""
        pending = 0
        while (made := await self._storage.spaces.backfill(space.id, limit=BACKFILL_STEP)) != 0:
            if made is None:
                await sleep(self._timer, 1_000)
            else:
                pending += made
        return pending

    async def _stand_by_when_complete(self, space: Space) -> None:
        while await self._storage.spaces.pending(space.id):
            await self._lane.idle()
            if await self._storage.spaces.pending(space.id):
                await sleep(self._timer, 1_000)
        if self._leads():
            space = await self._storage.spaces.activate(space.id)
            log.info("space_activated", space=space.id)
        self._serve(space)

    def _serve(self, space: Space) -> None:
        self._space, self._reason = space, None
        self._serves.set()

    async def _open(self) -> Space:
        self._space = await self._storage.spaces.open(space_fingerprint(self.provider))
        return self._space


def space_fingerprint(provider: EmbeddingProvider) -> dict[str, str | int]:
    """Return what identifies a space: everything in provider and text template that decides a vector."""
    return {**provider.fingerprint, "template": TEMPLATE}
