"""Checks that the search settings make sense together, and that calibration and reranker work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Inner
from agentctx.embedding.providers.registry import NONE
from agentctx.embedding.rerankers.registry import NONE as NO_RERANKER
from agentctx.embedding.rerankers.registry import create_reranker, is_remote
from agentctx.errors import AgentctxError
from agentctx.service.rag.calibrator import kept_calibration
from agentctx.text.chunking.base import PositionAwareChunk
from agentctx.wire import CalibrationState

SMALL_BUDGET = 100
LONG_WAIT_S = 30.0
PROBE_S: Final = 30.0
"""Timeout of the reranker's check: the first call loads a package or a model."""
_QUESTION = "Which animal is it about?"
_PASSAGES = tuple(
    PositionAwareChunk(f"probe-{number}", text, "probe", 0, len(text))
    for number, text in enumerate(("The falcon nests on the tower.", "Tea is at four o'clock."))
)


def _calibration(inner: Inner) -> CalibrationState | None:
    """Return the state of the answering model's calibration; None without a model or data folder."""
    if (provider := inner.embedding.provider) is None or inner.folder is None:
        return None
    if inner.daemon is not None:
        return inner.daemon.calibrator.state(provider)
    if kept_calibration(provider, inner.folder) is not None:
        return "ready"
    return "pending" if inner.settings.injection.calibrate else "off"


@check(Inner, "rag.calibration", _calibration)
def judge_calibration(state: CalibrationState | None) -> Finding:
    match state:
        case None:
            return skipped("no model to calibrate to, or nothing is saved yet")
        case "ready":
            return passed("relevance is calibrated to the model")
        case "pending":
            return passed("not calibrated to the model yet: words decide what is injected")
        case "off":
            return passed("off: words decide what is injected; injection.calibrate is false")
        case "unusable":
            return warned(
                "the model gives unlike texts the same vectors: words decide what is injected",
                hint="Choose another model for embedding.model, or check its prefixes and dimensions.",
            )


@check(Inner, "rag.settings", lambda inner: inner.settings)
def judge_rag(settings: Settings) -> Finding:
    rag = settings.embedding.rag
    if rag.max_results > settings.limits.max_results:
        return failed(
            f"embedding.rag.max_results is {rag.max_results}, limits.max_results is "
            f"{settings.limits.max_results}: every question without a limit is refused",
            hint="Lower the former or raise the latter.",
        )
    if not rag.enabled:
        return passed("off: LLM calls get no context; embedding.rag.enabled is false")
    if doubts := list(_doubts(settings)):
        return warned(
            "some search settings make little sense",
            detail="; ".join(doubts),
            hint="See `agentctx config show` for where each value comes from.",
        )
    return passed(f"{rag.max_results} passages of {', '.join(rag.collections)}")


def _doubts(settings: Settings) -> Iterator[str]:
    rag, embeds = settings.embedding.rag, settings.embedding.provider != NONE
    if not rag.collections:
        yield "embedding.rag.collections is empty: nothing is searched"
    if rag.budget_tokens < SMALL_BUDGET:
        yield f"embedding.rag.budget_tokens is {rag.budget_tokens}: hardly a passage fits"
    if rag.deadline_s > LONG_WAIT_S:
        yield f"embedding.rag.deadline_s is {rag.deadline_s:g}: an LLM call may wait that long"
    if embeds and rag.dense_weight == 0:
        yield "embedding.rag.dense_weight is 0: vectors are made and then not used"
    if not embeds and rag.max_distance > 0:
        yield "embedding.rag.max_distance is set, but without embedding nothing has a distance"


@check(Inner, "rerank.answers", timeout_s=PROBE_S)
async def check_reranker(inner: Inner) -> Finding:
    """Let the configured reranker order two texts."""
    settings = inner.settings.rerank
    if settings.provider == NO_RERANKER:
        return skipped("rerank.provider is none: results keep their order")
    if inner.embedding.offline and is_remote(settings.provider):
        return skipped(f"{settings.provider} was not asked: --offline")
    try:
        reranker = await create_reranker(settings)
        if reranker is None:
            return skipped("no reranker")
        try:
            ordered = await reranker.rerank(_QUESTION, _PASSAGES)
        finally:
            await reranker.aclose()
    except AgentctxError as error:
        return failed(f"{settings.provider} does not rerank: {error.message}", hint=error.hint)
    return passed(f"{reranker.name} ordered {len(ordered)} passages")
