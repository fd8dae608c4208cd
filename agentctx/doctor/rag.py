"""Checks that the search settings make sense together, and that calibration and reranker work."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentctx.chunking.base import PositionAwareChunk
from agentctx.config.embedding import RerankSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import Check, Finding, failed, passed, skipped, warned
from agentctx.embedding_providers.registry import NONE
from agentctx.errors import AgentctxError
from agentctx.rerankers.registry import NONE as NO_RERANKER
from agentctx.rerankers.registry import create_reranker, is_remote
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


def rag_checks(settings: Settings, calibration: CalibrationState | None, *, offline: bool) -> list[Check]:
    """Return the checks. `calibration` is None without a model; `offline` calls no reranker over HTTP."""
    probe = partial(probe_reranker, settings.rerank, offline=offline)
    return [
        Check(id="rag.settings", run=lambda: judge_rag(settings)),
        Check(id="rag.calibration", run=lambda: judge_calibration(calibration)),
        Check(id="rerank.answers", run=probe, timeout_s=PROBE_S),
    ]


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
    doubts = _warnings(settings)
    if doubts:
        return warned(
            "some search settings make little sense",
            detail="; ".join(doubts),
            hint="See `agentctx config show` for where each value comes from.",
        )
    return passed(f"{rag.max_results} passages of {', '.join(rag.collections)}")


def _warnings(settings: Settings) -> list[str]:
    rag, embeds = settings.embedding.rag, settings.embedding.provider != NONE
    return [
        text
        for is_so, text in (
            (not rag.collections, "embedding.rag.collections is empty: nothing is searched"),
            (
                rag.budget_tokens < SMALL_BUDGET,
                f"embedding.rag.budget_tokens is {rag.budget_tokens}: hardly a passage fits",
            ),
            (
                rag.deadline_s > LONG_WAIT_S,
                f"embedding.rag.deadline_s is {rag.deadline_s:g}: an LLM call may wait that long",
            ),
            (
                embeds and rag.dense_weight == 0,
                "embedding.rag.dense_weight is 0: vectors are made and then not used",
            ),
            (
                not embeds and rag.max_distance > 0,
                "embedding.rag.max_distance is set, but without embedding nothing has a distance",
            ),
        )
        if is_so
    ]


async def probe_reranker(settings: RerankSettings, *, offline: bool) -> Finding:
    """Let the configured reranker order two texts."""
    if settings.provider == NO_RERANKER:
        return skipped("rerank.provider is none: results keep their order")
    if offline and is_remote(settings.provider):
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
