"""Does the configured reranker put passages into an order."""

from __future__ import annotations

from typing import Final

from agentctx.chunking.base import PositionAwareChunk
from agentctx.config.embedding import RerankSettings
from agentctx.doctor.check import Check, Finding, failed, passed, skipped
from agentctx.errors import AgentctxError
from agentctx.rerankers.registry import NONE, create_reranker, is_remote

PROBE_S: Final = 30.0
"""The first call loads a package or a model."""
_QUESTION = "Which animal is it about?"
_PASSAGES = tuple(
    PositionAwareChunk(f"probe-{number}", text, "probe", 0, len(text))
    for number, text in enumerate(("The falcon nests on the tower.", "Tea is at four o'clock."))
)


def rerank_check(settings: RerankSettings, *, offline: bool) -> Check:
    async def run() -> Finding:
        return await _probe(settings, offline=offline)

    return Check(id="rerank.answers", run=run, timeout_s=PROBE_S)


async def _probe(settings: RerankSettings, *, offline: bool) -> Finding:
    if settings.provider == NONE:
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
