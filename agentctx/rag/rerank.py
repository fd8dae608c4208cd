"""The reranker's part of an answer: within its deadline, or the answer keeps its order and says why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from agentctx.chunking.base import PositionAwareChunk
from agentctx.config.embedding import RerankSettings
from agentctx.errors import AgentctxError, ProviderFailed
from agentctx.rag.fuse import Candidate
from agentctx.rerankers.base import Reranker
from agentctx.storage.records import ResolvedChunk
from agentctx.telemetry.base import Telemetry
from agentctx.wire import Order

_log = structlog.get_logger("agentctx.rag")


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker, and how much it may read and how long it may take."""

    reranker: Reranker
    settings: RerankSettings
    telemetry: Telemetry

    async def order(
        self, query: str, candidates: Sequence[Candidate], found: Mapping[int, ResolvedChunk], wanted: int
    ) -> tuple[list[Candidate], str | None]:
        """All candidates, the best `wanted` of the first `settings.candidates` in front, by the reranker.

        If it fails or takes too long, they come back in the given order, with the reason.
        """
        read = candidates[: self.settings.candidates]
        chunks = [as_chunk(found[candidate.chunk]) for candidate in read]
        with self.telemetry.stage("rerank"):
            best, reason = await self._best(query, chunks, min(wanted, len(chunks)))
        if reason is not None:
            _log.warning("rerank_failed", reranker=self.reranker.name, reason=reason)
        return to_front(candidates, best), reason

    async def _best(
        self, query: str, chunks: Sequence[PositionAwareChunk], wanted: int
    ) -> tuple[list[int], str | None]:
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                best = await self.reranker.rerank(query, chunks, wanted)
            return checked_ids(best, chunks), None
        except TimeoutError:
            return [], f"deadline: it took longer than {self.settings.deadline_s:g} s"
        except AgentctxError as error:
            return [], f"{error.code}: {error.message}"
        except Exception as error:  # noqa: BLE001 - a reranker may be anybody's, and there is an answer without it
            return [], f"{ProviderFailed.code}: {type(error).__name__}"


def can_matter(count: int, wanted: int, order: Order) -> bool:
    """Whether the reranker can change an answer of `wanted` out of `count` candidates.

    Sorted by distance, an answer only depends on which candidates are in it.
    """
    return count > (wanted if order == "distance" else 1)


def as_chunk(resolved: ResolvedChunk) -> PositionAwareChunk:
    """What a reranker reads. The id is the chunk's, the document's id the entry's."""
    return PositionAwareChunk(
        id=str(resolved.chunk),
        content=resolved.content,
        doc_id=resolved.entry.id,
        start=resolved.start,
        end=resolved.end,
    )


def checked_ids(best: Sequence[PositionAwareChunk], given: Sequence[PositionAwareChunk]) -> list[int]:
    """The ids of what a reranker returned.

    Raises:
        ProviderFailed: it returned a chunk that it was not given, or one twice.
    """
    ids = [chunk.id for chunk in best]
    if len(set(ids)) != len(ids) or not set(ids) <= {chunk.id for chunk in given}:
        raise ProviderFailed("The reranker returned chunks that it was not given, or one of them twice.")
    return [int(number) for number in ids]


def to_front(candidates: Sequence[Candidate], chunks: Sequence[int]) -> list[Candidate]:
    """The candidates of `chunks` in that order, then all others in the order they had."""
    place = {chunk: at for at, chunk in enumerate(chunks)}
    return sorted(candidates, key=lambda candidate: place.get(candidate.chunk, len(place)))
