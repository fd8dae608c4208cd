"""Re-embedding with another model: its progress, cost, and comparison with the answering model."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentctx.wire.protocol import ReembedStage


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpace:
    """The vectors of one model. `reason`: why they cannot be searched at present; null if they can."""

    space: int
    provider: str
    model: str
    dimension: int
    chunks: int
    """Chunks that should have a vector."""
    pending: int
    """Chunks without a vector yet."""
    buried: int
    """Chunks whose embedding was given up."""
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedCost:
    """The cost of all pending embeddings, in USD; null if the price is unknown."""

    tokens: int
    usd: float | None
    confirm_usd: float
    """Above this cost, embedding waits for approval; 0: never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelComparison:
    """A comparison of both models on stored texts: shares from 0 to 1."""

    sampled: int
    self_retrieval: float
    """Share of the texts that were nearest to themselves in the new space."""
    overlap: float | None
    """Share of the ten nearest that both models agree on; null if the present model could not be asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReembedReply:
    """`stage` of the model in `beside`: off (there is none), held (waits for approval of the cost), building,
    comparing, ready (can be switched to), kept (answered before, and can be rolled back to).
    """

    stage: ReembedStage
    answering: ModelSpace | None
    beside: ModelSpace | None
    cost: ReembedCost | None = None
    """Null if no provider is used over HTTP, or nothing is pending."""
    comparison: ModelComparison | None = None
    advice: str | None = None
    """What to do next."""
    former: list[ModelSpace] = field(default_factory=list)
    """Further models whose vectors are kept until `retire`."""
