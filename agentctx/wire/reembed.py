"""The model beside the one that answers: how far it is, and how the two compare."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.wire.names import ReembedStage


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpace:
    """One model's vectors. `reason`: why they cannot answer at present; null when they can."""

    space: int
    provider: str
    model: str
    dimension: int
    chunks: int
    """That should have a vector."""
    pending: int
    """That have none yet."""
    buried: int
    """That were given up."""
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedCost:
    """What embedding everything that is pending costs, in USD; null where no price is known."""

    tokens: int
    usd: float | None
    confirm_usd: float
    """Above that it starts only after approval; 0 never asks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelComparison:
    """Both models asked with texts that are stored: shares from 0 to 1."""

    sampled: int
    self_retrieval: float
    """How many of the texts were nearest to themselves in the new space."""
    overlap: float | None
    """How much the ten nearest have in common; null when the present model could not be asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedReply:
    """`stage` is that of `beside`: off (there is none), held (waits for approval of the cost), building,
    comparing, ready (to be switched to), kept (it answered before, and can again).
    """

    stage: ReembedStage
    answering: ModelSpace | None
    beside: ModelSpace | None
    cost: ReembedCost | None = None
    """Null where nothing is asked over HTTP, and when nothing is pending."""
    comparison: ModelComparison | None = None
    advice: str | None = None
    """What to do next."""
