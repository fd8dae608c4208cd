"""The model that answers, and the one beside it: the next model while it is built, or the former one, kept.

The active space in the database decides which of them answers, not the config. So a switch survives every
restart, and a config that still names the former model does not undo it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal, TypeAlias, TypeVar

import structlog

from agentctx.config.embedding import NextModelSettings
from agentctx.embedding.providers.prices import CostEstimate, estimate_cost, needs_consent
from agentctx.embedding.queue.call import ask_canary
from agentctx.embedding.queue.comparison import MIN_SELF_RETRIEVAL, SAMPLE, Comparison, SearchedSpace, compare
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.retry import Backoff
from agentctx.embedding.queue.timing import Timer, sleep
from agentctx.errors import Conflict, DeadlineExceeded, NotFound, ProviderFailed, StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.records import Job, PendingTotal, Space, SpaceState
from agentctx.telemetry import NO_TELEMETRY, Telemetry

T = TypeVar("T")

log = structlog.get_logger("agentctx.reembed")

Fingerprint: TypeAlias = Mapping[str, str | int]
Stage: TypeAlias = Literal["off", "held", "building", "comparing", "ready", "kept"]
"""Stages of the model that does not answer; `off` if there is none."""

_LAG_SHARE: Final = 100
"""At most a hundredth of a space may be pending when switching to it: those chunks are found by keyword."""
_BACKOFF: Final = Backoff(base_s=1.0, max_s=60.0)


class Lanes:
    """One or two lanes. `open` before the first save, then `run` until `stop`."""

    leading: Lane
    """The lane that answers; set by `open`."""

    def __init__(
        self,
        storage: Storage,
        next_settings: NextModelSettings,
        timer: Timer,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._telemetry = telemetry
        self._storage = storage
        self._settings = next_settings
        self._timer = timer
        self._rng = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._approved = asyncio.Event()
        self._changing = asyncio.Lock()
        self._lanes: list[Lane] = []
        self._next: Lane | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_held = False

    async def open(self, first: Lane, second: Lane | None = None) -> None:
        """Open the spaces of both models, of `[embedding]` and of `[embedding.next]`, in one step.

        The model whose space is active answers, or the first if neither is.
        """
        given = [first] if second is None else [first, second]
        lanes = [
            given[at]
            for at in to_open([lane.fingerprint for lane in given], await self._storage.spaces.all())
        ]
        spaces = await self._storage.spaces.open_all([lane.fingerprint for lane in lanes])
        present = await self._storage.spaces.all()
        active = next((space for space in present if space.state is SpaceState.ACTIVE), None)
        self._lanes = lanes
        self._next = second
        self.leading = next(
            (lane for lane in lanes if active and lane.fingerprint == active.fingerprint), first
        )
        for lane, space in zip(lanes, spaces, strict=True):
            lane.queue.throttle(1.0 if lane is self.leading else self._settings.share)
            await lane.builder.open(space)

    def __iter__(self) -> Iterator[Lane]:
        return iter(tuple(self._lanes))

    @property
    def other(self) -> Lane | None:
        """The lane that does not answer, or None."""
        return next((lane for lane in self._lanes if lane is not self.leading), None)

    @property
    def has_moved(self) -> bool:
        """Whether the model of `[embedding.next]` already answers, so that the config is out of date."""
        return self._next is self.leading

    def leads(self, lane: Lane) -> bool:
        return lane is self.leading

    def enqueue(self, jobs: Sequence[Job]) -> None:
        """Give each job to the lane of its space. Can serve as the stores' embed callback."""
        for lane in self:
            lane.queue.enqueue([job for job in jobs if job.space == lane.space])

    def recheck_table(self) -> None:
        """Check the table again, because jobs may have become due."""
        for lane in self:
            lane.queue.recheck_table()

    def drop(self, entries: Collection[str]) -> None:
        """Drop the texts of erased entries. Can serve as the storage's listener."""
        for lane in self:
            lane.queue.drop(entries)

    async def run(self) -> None:
        """Fill the spaces until `stop`; compare the next one when complete, and switch if so configured."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(lane.run(), name="embedding") for lane in self]
            watching = tasks.create_task(self._watch(), name="reembed")
            await asyncio.wait(running)
            watching.cancel()

    async def stop(self, timeout: float | None = None) -> None:
        """Embed what is due in the leading lane within the timeout; other jobs stay in the table."""
        await asyncio.gather(*(lane.queue.stop(timeout if self.leads(lane) else 0) for lane in self))

    async def permit(self, space: Space) -> None:
        """Hold the space while its estimated cost exceeds the limit, until the cost is approved."""
        lane = next(lane for lane in self if lane.space == space.id)
        if self.leads(lane) or space.approved:
            return
        estimate = await self.estimate(lane)
        if needs_consent(estimate, lane.settings.limits.confirm_usd) and not self._approved.is_set():
            self._is_held = True
            lane.builder.hold("waiting for you to accept its cost with `agentctx reembed`")
            log.info("reembed_held", space=space.id, tokens=estimate.tokens, usd=estimate.usd)
            await self._approved.wait()
            self._is_held = False

    async def approve(self) -> None:
        """Approve the cost of the next space."""
        lane = self._other_lane()
        await self._storage.spaces.approve(lane.space)
        self._approved.set()

    async def estimate(self, lane: Lane) -> CostEstimate:
        """Estimate the cost of embedding all pending jobs of the lane."""
        pending = await self.pending(lane)
        if lane.spending is None:
            return CostEstimate(0, 0.0)
        price = lane.spending.price
        return estimate_cost(pending.bytes, price.usd_per_million_tokens if price else None)

    async def pending(self, lane: Lane) -> PendingTotal:
        """Return the pending jobs of the lane's space."""
        return await self._storage.spaces.total_pending(lane.space)

    def stage(self, space: Space | None) -> Stage:
        """Return the stage of the other model, from its space."""
        if space is None:
            return "off"
        if space.state is SpaceState.KEPT or self.other is None:
            return "kept"
        if self._is_held:
            return "held"
        if self.other.builder.searched is None:
            return "building"
        is_compared = space.comparison is not None or self.other is not self._next
        return "ready" if is_compared else "comparing"

    async def other_spaces(self) -> list[Space]:
        """Return the spaces of the models that do not answer: that of a lane first, then those still kept."""
        own = {lane.space for lane in self}
        models = [lane.fingerprint for lane in self]
        living = [
            space
            for space in await self._storage.spaces.all()
            if space.id in own or not (space.state is SpaceState.RETIRED or space.fingerprint in models)
        ]
        living.sort(key=lambda space: (space.id not in own, space.state is not SpaceState.ACTIVE))
        return [space for space in living if space.id != self.leading.space]

    @property
    def is_dropped_next(self) -> bool:
        """Whether the vectors of the model of `[embedding.next]`, or of its predecessor, were dropped."""
        return self._next is not None and self.other is None and self._next is not self.leading

    async def switch(self) -> None:
        """Switch to the model of `embedding.next`; the previous one is kept.

        Raises:
            NotFound: only one model is in use.
            Conflict: the model already answers, or its space is incomplete.
        """
        if self.has_moved:
            raise Conflict(
                f"{self.leading.provider.model} already answers searches.",
                hint="Run `agentctx reembed --rollback` to return to the previous model.",
            )
        await self._finish(self._switch_to(self._other_lane()))

    async def rollback(self) -> None:
        """Switch back to the former model; the present one is kept.

        Raises:
            NotFound: no other model is configured.
            Conflict: the model of `[embedding]` answers already, never answered, or cannot answer now.
        """
        lane, space = self._other_lane(), next(iter(await self.other_spaces()))
        if not self.has_moved:
            raise Conflict(
                f"{self.leading.provider.model}, the model of [embedding], answers already.",
                hint=f"Run `agentctx reembed --switch` to make {lane.provider.model} answer.",
            )
        if space.state is not SpaceState.KEPT:
            raise Conflict(
                f"{lane.provider.model} has not answered searches yet: nothing to roll back.",
                hint="Run `agentctx reembed --switch` to make it answer.",
            )
        await self._finish(self._switch_to(lane))

    async def retire(self) -> list[int]:
        """Drop the vectors of the former model and of any other unconfigured model; return their spaces.

        Raises:
            NotFound: no such model is kept.
            Conflict: the model that is to answer does not answer yet.
        """
        return await self._finish(self._retire())

    async def _switch_to(self, lane: Lane) -> None:
        async with self._changing:
            if lane.builder.searched is None:
                reason = (lane.builder.reason or "").removesuffix(".")
                raise Conflict(
                    f"{lane.provider.model} cannot answer yet: {reason}.",
                    hint="`agentctx reembed` shows how far it is.",
                )
            if failure := await ask_canary(lane.provider, timer=self._timer, telemetry=self._telemetry):
                raise Conflict(
                    f"{lane.provider.model} cannot answer now: {failure.reason.removesuffix('.')}.",
                    hint="Try again when its provider is well; `agentctx doctor` says what it lacks.",
                )
            max_pending = max(
                lane.settings.queue.batch_size, (await self._storage.stats()).chunks // _LAG_SHARE
            )
            space = await self._storage.spaces.activate(lane.space, max_pending=max_pending)
            former, self.leading = self.leading, lane
            former.queue.throttle(self._settings.share)
            lane.queue.throttle(1.0)
            log.info(
                "model_switched", space=space.id, model=lane.provider.model, former=former.provider.model
            )

    async def _retire(self) -> list[int]:
        async with self._changing:
            retired = await self._storage.spaces.retire_former(self.leading.space)
            if not retired:
                raise NotFound(
                    "No previous model is kept.", hint="`agentctx reembed --status` lists the models."
                )
            for lane in [lane for lane in self if lane.space in retired]:
                self._lanes.remove(lane)
                await lane.queue.stop(0)
            log.info("models_retired", spaces=retired)
            return retired

    async def _watch(self) -> None:
        """Compare the other model's space once it is complete, retrying while a model does not answer."""
        lane, attempts = self.other, 0
        if lane is None:
            return
        await lane.builder.served()
        while not self.leads(lane):
            try:
                await self._compare(lane)
            except (ProviderFailed, StorageFailed, DeadlineExceeded) as error:
                log.warning("comparison_failed", reason=error.message)
            else:
                return
            await sleep(self._timer, _BACKOFF.delay_ms(attempts, self._rng))
            attempts += 1

    async def _compare(self, lane: Lane) -> None:
        space = next(iter(await self.other_spaces()), None)
        if space is None or space.state is not SpaceState.BUILDING:
            return
        comparison = Comparison(**space.comparison) if space.comparison else None
        if comparison is None:
            present = self.leading.builder.searched
            with self._telemetry.embedding("comparison", SAMPLE):
                comparison = await compare(
                    self._storage,
                    SearchedSpace(lane.space, lane.provider),
                    None if present is None else SearchedSpace(present, self.leading.provider),
                ) or Comparison(0, 0.0, None)
            await self._storage.spaces.record_comparison(space.id, asdict(comparison))
            log.info("space_compared", space=space.id, **asdict(comparison))
        if self._settings.switch == "auto":
            await self._switch_without_approval(lane, comparison)

    async def _switch_without_approval(self, lane: Lane, comparison: Comparison) -> None:
        if comparison.sampled and comparison.self_retrieval < MIN_SELF_RETRIEVAL:
            log.warning("not_switched", model=lane.provider.model, self_retrieval=comparison.self_retrieval)
            return
        try:
            await self._finish(self._switch_to(lane))
        except Conflict as error:
            raise StorageFailed(error.message) from error

    async def _finish(self, audited: Coroutine[Any, Any, T]) -> T:
        """Run to completion even if the caller goes away: database and memory must agree on who answers."""
        task = asyncio.create_task(audited)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def _other_lane(self) -> Lane:
        if self.other is None:
            raise NotFound(
                "Only one model is configured.",
                hint="Configure the other one in [embedding.next] and restart the daemon.",
            )
        return self.other


def to_open(fingerprints: Sequence[Fingerprint], spaces: Sequence[Space]) -> list[int]:
    """Choose which models of `[embedding]` and `[embedding.next]` get a lane; `spaces` are newest first.

    A former model retired in favour of the next one is not rebuilt because the config still names it.
    """
    if len(fingerprints) < 2:
        return [0]
    first, second = map(dict, fingerprints)
    if first == second:
        return [0]
    has_moved = any(
        space.state is SpaceState.ACTIVE and dict(space.fingerprint) == second for space in spaces
    )
    former = next((space for space in spaces if dict(space.fingerprint) == first), None)
    is_wanted = former is not None and former.state is not SpaceState.RETIRED
    return [1] if has_moved and not is_wanted else [0, 1]
