"""Changing the model: progress and the operator's decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentctx import wire
from agentctx.embedding.providers.prices import format_usd
from agentctx.embedding.queue.lane import Lane
from agentctx.embedding.queue.lanes import Lanes
from agentctx.embedding.queue.space_builder import FILLING
from agentctx.errors import NotFound
from agentctx.service import audit_notes as notes
from agentctx.service.access.policy import DAEMON
from agentctx.service.base import Peer
from agentctx.service.operations import Operation
from agentctx.storage.base import Storage
from agentctx.storage.records import Space

NOT_RUNNING = "not configured"


@dataclass(frozen=True)
class ModelChange:
    """Changes the model. `lanes` is None if nothing is embedded."""

    storage: Storage
    lanes: Lanes | None

    @Operation("GET", "/reembed", DAEMON)
    async def reembed_status(self, peer: Peer) -> wire.ReembedReply:  # noqa: ARG002
        """Report the progress of the next model and how it compares with the current one."""
        return await self._reply()

    @Operation("POST", "/reembed/{action}", DAEMON, audit=notes.reembedded, errors=(404, 409, 507))
    async def reembed(self, action: wire.ReembedAction, peer: Peer) -> wire.ReembedReply:  # noqa: ARG002
        """Accept the cost of the next model, switch to it, roll back to the previous model, or drop that.

        Raises:
            NotFound: only one model is in use.
            Conflict: the other model is not in the right state for the action.
        """
        lanes = self.lanes
        if lanes is None:
            raise NotFound("No model is configured.", hint="Set embedding.provider in the config.")
        actions = {
            "approve": lanes.approve,
            "switch": lanes.switch,
            "rollback": lanes.rollback,
            "retire": lanes.retire,
        }
        await actions[action]()
        return await self._reply()

    async def summary(self) -> wire.ReembedReply | None:
        """Return the progress, or None if there is no second model."""
        lanes = self.lanes
        if lanes is None or not (await lanes.other_spaces() or lanes.has_moved or lanes.is_dropped_next):
            return None
        return await self._reply()

    async def _reply(self) -> wire.ReembedReply:
        """Describe the model beside the answering one; stage `off` if there is none."""
        lanes = self.lanes
        if lanes is None:
            return wire.ReembedReply(stage="off", answering=None, beside=None)
        spaces, other = await lanes.other_spaces(), lanes.other
        space = spaces[0] if spaces else None
        chunks = (await self.storage.stats()).chunks
        stage = lanes.stage(space)
        cost = await _cost(lanes, other) if other else None
        beside = await _other_model(lanes, other, space, chunks)
        compared = space.comparison if space is not None and stage != "kept" else None
        return wire.ReembedReply(
            stage=stage,
            answering=await _of_lane(lanes, lanes.leading, chunks),
            beside=beside,
            cost=cost,
            comparison=None if compared is None else wire.ModelComparison(**compared),
            advice=_advice(stage, lanes, beside, cost),
            former=[_unconfigured(each, chunks) for each in spaces[1:]],
        )


async def _of_lane(lanes: Lanes, lane: Lane, chunks: int) -> wire.ModelSpace:
    pending = await lanes.pending(lane)
    return wire.ModelSpace(
        space=lane.space,
        provider=lane.provider.id,
        model=lane.provider.model,
        dimension=lane.provider.dimension,
        chunks=chunks,
        pending=pending.pending,
        buried=pending.buried,
        reason=lane.builder.reason,
    )


async def _other_model(
    lanes: Lanes, lane: Lane | None, space: Space | None, chunks: int
) -> wire.ModelSpace | None:
    if lane is not None:
        model = await _of_lane(lanes, lane, chunks)
        return replace(model, reason=None) if model.reason == FILLING else model
    return None if space is None else _unconfigured(space, chunks)


def _unconfigured(space: Space, chunks: int) -> wire.ModelSpace:
    """Describe the previous model when the config no longer names it."""
    return wire.ModelSpace(
        space=space.id,
        provider=str(space.fingerprint.get("provider", "")),
        model=str(space.fingerprint.get("model", "")),
        dimension=space.dimension or 0,
        chunks=chunks,
        pending=0,
        buried=0,
        reason=NOT_RUNNING,
    )


async def _cost(lanes: Lanes, lane: Lane) -> wire.ReembedCost | None:
    if lane.spending is None:
        return None
    estimate = await lanes.estimate(lane)
    confirm_usd = lane.settings.limits.confirm_usd
    return wire.ReembedCost(tokens=estimate.tokens, usd=estimate.usd, confirm_usd=confirm_usd)


def _advice(
    stage: wire.ReembedStage, lanes: Lanes, beside: wire.ModelSpace | None, cost: wire.ReembedCost | None
) -> str | None:
    """Return what can be done now; everything that is named succeeds."""
    name = f"{beside.provider} {beside.model}".strip() if beside else ""
    if stage == "held" and cost is not None and cost.usd is not None:
        return f"`agentctx reembed` starts once you approve {format_usd(cost.usd)}"
    if stage == "ready":
        return "`agentctx reembed --switch` switches to it; the current model is kept"
    if lanes.has_moved:
        leading = lanes.leading.provider.model
        moved = f"move the model of [embedding.next] into [embedding]: {leading} already answers"
        return f"{moved}; or `agentctx reembed --rollback` returns to {name}" if _is_ready(lanes) else moved
    if lanes.is_dropped_next:
        return "remove [embedding.next]: its vectors were dropped, and the next start would make them again"
    return _advice_on_kept(lanes, name) if stage == "kept" else None


def _advice_on_kept(lanes: Lanes, name: str) -> str:
    if lanes.leading.builder.searched is None:
        restart = f"or name {name} in [embedding] again and restart the daemon"
        return f"wait until everything is embedded with {lanes.leading.provider.model}, {restart}"
    dropping = f"`agentctx reembed --retire` drops the vectors of {name}"
    if lanes.other is None:
        return f"{dropping}; to return to it, name it in [embedding.next] and restart the daemon"
    return f"{dropping}; `agentctx reembed --switch` returns to it" if _is_ready(lanes) else dropping


def _is_ready(lanes: Lanes) -> bool:
    return lanes.other is not None and lanes.other.builder.searched is not None
