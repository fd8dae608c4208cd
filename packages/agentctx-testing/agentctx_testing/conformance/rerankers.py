"""The suite of rerankers."""

from __future__ import annotations

import pytest

from agentctx.embedding.rerankers.base import Reranker
from agentctx.errors import InvalidInput
from agentctx.text.chunking.base import PositionAwareChunk

TEXTS = ["the dog ran", "a cat sat on the mat", "the cat ran", "the dog sat", "a cat"]
QUESTION = "cat mat"
"""Shares two words with the second text, one with the third and the last, none with the others."""


def chunks_of(texts: list[str]) -> list[PositionAwareChunk]:
    return [PositionAwareChunk(f"c{n}", text, "doc.md", n, n + len(text)) for n, text in enumerate(texts)]


class RerankerConformance:
    """Expects a fixture `reranker`, whose scores grow with the words that question and text share."""

    async def test_the_most_relevant_come_first_and_ties_keep_their_order(self, reranker: Reranker) -> None:
        chunks = chunks_of(TEXTS)
        best = await reranker.rerank(QUESTION, chunks)
        assert best == [chunks[at] for at in (1, 2, 4, 0, 3)]

    @pytest.mark.parametrize("top_k", [0, 1, 2, 3, 5, 99])
    async def test_at_most_top_k_come_back(self, reranker: Reranker, top_k: int) -> None:
        chunks = chunks_of(TEXTS)
        whole = await reranker.rerank(QUESTION, chunks)
        assert await reranker.rerank(QUESTION, chunks, top_k) == whole[:top_k]

    async def test_nothing_in_nothing_out(self, reranker: Reranker) -> None:
        assert await reranker.rerank(QUESTION, [], 5) == []

    async def test_a_negative_top_k_is_refused(self, reranker: Reranker) -> None:
        for chunks in ([], chunks_of(TEXTS)):
            with pytest.raises(InvalidInput, match="-1"):
                await reranker.rerank(QUESTION, chunks, -1)

    async def test_chunks_come_back_whole_and_as_often_as_they_were_given(self, reranker: Reranker) -> None:
        twice = chunks_of(["a cat", "a cat", "the dog"])
        best = await reranker.rerank(QUESTION, [*twice, twice[0]])
        assert best == [twice[0], twice[1], twice[0], twice[2]]

    async def test_any_text_can_be_read(self, reranker: Reranker) -> None:
        chunks = chunks_of([" ", "🎉 Grüße, 世界!", "[SEP] [CLS]", "NUL \x00", "the dog ran " * 200, "a cat"])
        best = await reranker.rerank("cat", chunks)
        assert best[0] == chunks[-1]
        assert sorted(c.id for c in best) == [c.id for c in chunks]

    async def test_it_has_a_name(self, reranker: Reranker) -> None:
        assert reranker.name
