from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.embedding import RerankSettings
from agentctx.embedding.rerankers.registry import create_reranker
from agentctx.errors import ConfigInvalid, UnknownProvider
from tests.embedding.rerankers.tiny_cross_encoder import write_tiny


async def test_the_default_is_none() -> None:
    assert await create_reranker(RerankSettings()) is None


async def test_an_unknown_id_lists_the_known_ones() -> None:
    with pytest.raises(UnknownProvider, match="none, cohere, cross-encoder"):
        await create_reranker(RerankSettings.model_validate({"provider": "coher"}))


async def test_each_is_made_from_its_settings(tmp_path: Path) -> None:
    for values, name in (
        ({"provider": "cohere", "api_key": "k", "model": "m"}, "cohere/m"),
        ({"provider": "cross-encoder", "model": str(write_tiny(tmp_path / "tiny"))}, "tiny"),
    ):
        reranker = await create_reranker(RerankSettings.model_validate(values))
        assert reranker is not None
        assert reranker.name == name
        await reranker.aclose()


async def test_a_cross_encoder_needs_its_model() -> None:
    with pytest.raises(ConfigInvalid, match=r"rerank\.model"):
        await create_reranker(RerankSettings(provider="cross-encoder"))
