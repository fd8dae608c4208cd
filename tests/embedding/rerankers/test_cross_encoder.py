from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agentctx.embedding.rerankers.base import Reranker
from agentctx.embedding.rerankers.cross_encoder import CrossEncoderReranker, relevance
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx_testing.conformance.rerankers import RerankerConformance, chunks_of
from tests.embedding.rerankers.tiny_cross_encoder import write_tiny


class TestConformance(RerankerConformance):
    @pytest.fixture(params=[(True, 1), (False, 1), (True, 2)], ids=["types", "no-types", "two-logits"])
    async def reranker(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Reranker]:
        types, logits = request.param
        reranker = CrossEncoderReranker(write_tiny(tmp_path, types=types, logits=logits))
        yield reranker
        await reranker.aclose()


async def test_the_passage_is_cut_at_the_window_and_the_question_to_its_half(tmp_path: Path) -> None:
    reranker = CrossEncoderReranker(write_tiny(tmp_path, window=32))
    late, early = chunks_of(["the " * 40 + "cat", "the cat " + "the " * 40])
    assert await reranker.rerank("dog " * 100, [late, early]) == [early, late]
    await reranker.aclose()


async def test_a_closed_reranker_raises(tmp_path: Path) -> None:
    reranker = CrossEncoderReranker(write_tiny(tmp_path))
    await reranker.aclose()
    await reranker.aclose()
    with pytest.raises(ProviderFailed, match="closed"):
        await reranker.rerank("cat", chunks_of(["a cat"]))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.onnx"):
        CrossEncoderReranker(tmp_path)


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
async def test_a_broken_file_fails_the_call(tmp_path: Path, broken: str) -> None:
    (write_tiny(tmp_path) / broken).write_text("{}")
    reranker = CrossEncoderReranker(tmp_path)
    with pytest.raises(ProviderFailed, match=broken.replace(".", r"\.")) as caught:
        await reranker.rerank("cat", chunks_of(["a cat"]))
    assert caught.value.disposition is Disposition.STOP
    await reranker.aclose()


def test_only_one_or_two_logits_are_a_score() -> None:
    assert relevance(np.array([[2.5]])) == 2.5
    assert relevance(np.array([[1.0, 4.0]])) == 3.0
    with pytest.raises(ProviderFailed, match="shape"):
        relevance(np.zeros((1, 3)))
