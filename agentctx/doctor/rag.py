"""Do the settings of answers make sense together."""

from __future__ import annotations

from agentctx.config.schema import Settings
from agentctx.doctor.check import Check, Finding, failed, passed, skipped, warned
from agentctx.embedding_providers.registry import NONE
from agentctx.wire import CalibrationState

SMALL_BUDGET = 100
LONG_WAIT_S = 30.0


def rag_check(settings: Settings) -> Check:
    async def run() -> Finding:
        return judge_rag(settings)

    return Check(id="rag.settings", run=run)


def calibration_check(state: CalibrationState | None) -> Check:
    """Whether relevance understands the similarities of the model. `state` is None without a model."""

    async def run() -> Finding:
        return judge_calibration(state)

    return Check(id="rag.calibration", run=run)


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
    doubts = _doubts(settings)
    if doubts:
        return warned(
            "some search settings make little sense",
            detail="; ".join(doubts),
            hint="See `agentctx config show` for where each value comes from.",
        )
    return passed(f"{rag.max_results} passages of {', '.join(rag.collections)}")


def _doubts(settings: Settings) -> list[str]:
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
