"""Rerank the candidates within a deadline; on failure, keep their order and report why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from agentctx.config.embedding import RerankSettings
from agentctx.embedding.rerankers.base import Reranker
from agentctx.errors import AgentctxError, ProviderFailed
from agentctx.service.rag.candidate import Candidate
from agentctx.storage.search import ResolvedChunk
from agentctx.telemetry import Telemetry
from agentctx.text.chunking.base import PositionAwareChunk
from agentctx.wire import Order

_log = structlog.get_logger("agentctx.rag")


@dataclass(frozen=True, slots=True)
class BoundedReranker:
    """A reranker with its limits: the number of candidates that it reads, and the deadline."""

    reranker: Reranker
    settings: RerankSettings
    telemetry: Telemetry

    async def order(
        self, query: str, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk], limit: int
    ) -> tuple[list[Candidate], str | None]:
        """Reorder the candidates: the best `limit` of the first `settings.candidates` come first.

        If the reranker fails or takes too long, return the given order and the reason.
        """
        read = candidates[: self.settings.candidates]
        chunks = [as_chunk(found[candidate.chunk]) for candidate in read]
        with self.telemetry.stage("rerank"):
            best, reason = await self._best(query, chunks, min(limit, len(chunks)))
        if reason is not None:
            _log.warning("rerank_failed", reranker=self.reranker.name, reason=reason)
        ranks = {chunk: rank for rank, chunk in enumerate(best)}
        return sorted(candidates, key=lambda candidate: ranks.get(candidate.chunk, len(ranks))), reason

    async def _best(
        self, query: str, chunks: Sequence[PositionAwareChunk], limit: int
    ) -> tuple[list[int], str | None]:
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                best = await self.reranker.rerank(query, chunks, limit)
            return checked_ids(best, chunks), None
        except TimeoutError:
            return [], f"deadline: it took longer than {self.settings.deadline_s:g} s"
        except AgentctxError as error:
            return [], f"{error.code}: {error.message}"
        except Exception as error:  # noqa: BLE001 - a reranker may be third-party code, and is optional
            return [], f"{ProviderFailed.code}: {type(error).__name__}"


def can_change_result(count: int, limit: int, order: Order) -> bool:
    """Return whether reranking can change an answer of `limit` out of `count` candidates.

    With order "distance", only the choice of candidates matters, not their ranking.
    """
    return count > (limit if order == "distance" else 1)


def as_chunk(resolved: ResolvedChunk) -> PositionAwareChunk:
    """Convert a resolved chunk to a reranker's input; `doc_id` is the entry's id."""
    return PositionAwareChunk(
        id=str(resolved.chunk),
        content=resolved.content,
        doc_id=resolved.entry.id,
        start=resolved.start,
        end=resolved.end,
    )


def checked_ids(best: Sequence[PositionAwareChunk], given: Sequence[PositionAwareChunk]) -> list[int]:
    """Return the ids of the chunks that a reranker returned.

    Raises:
        ProviderFailed: the result contains a chunk that was not given, or the same chunk twice.
    """
    ids = [chunk.id for chunk in best]
    if len(set(ids)) != len(ids) or not set(ids) <= {chunk.id for chunk in given}:
        raise ProviderFailed("The reranker returned chunks that it was not given, or one of them twice.")
    return [int(number) for number in ids]
