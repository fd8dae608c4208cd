"""Calibrations are packaged, kept in a file, or made in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.fake import FakeFault, FakeProvider
from agentctx.embedding_providers.registry import create_provider
from agentctx.errors import Disposition
from agentctx.rag.calibration import CalibrationTexts, calibrate, calibration_texts, scale_of
from agentctx.rag.calibrator import Calibrator, calibration_key, packed, unpacked
from agentctx.rag.relevance import Calibration, Scale

FEW = CalibrationTexts(
    ("some text", "other text"), ("red apple", "green pear"), (("red", "apple"), ("green", "pear"))
)


async def test_the_packaged_calibration_is_that_of_the_embedded_model(tmp_path: Path) -> None:
    provider = create_provider(EmbeddingSettings())
    assert provider is not None
    try:
        known = Calibrator([provider], tmp_path).of(provider)
        assert known is not None
        texts = calibration_texts().background
        assert known.background.shape == (len(texts), provider.dimension)
        fresh = await provider.embed(texts[:8])
        assert (known.background[:8] * fresh).sum(axis=1).min() > 0.99
        assert known.scale == pytest.approx(Scale(), abs=0.05), "the reference, up to rounding"
    finally:
        await provider.aclose()


async def test_another_model_is_calibrated_in_the_background_and_once(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=16)
    calibrator = Calibrator([provider], tmp_path)
    assert (calibrator.of(provider), calibrator.state(provider)) == (None, "pending")
    async with asyncio.timeout(30):
        await calibrator.run()
    assert calibrator.state(provider) == "ready"
    made = calibrator.of(provider)
    assert made is not None
    same = FakeProvider(dimension=16)
    read = Calibrator([same], tmp_path, may_embed=False).of(same)
    assert read is not None
    assert read.scale == made.scale


async def test_a_provider_that_fails_is_asked_again_later(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=16, faults=[FakeFault.fails(Disposition.RETRY, call=1)])
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    calibrator = Calibrator([provider], tmp_path, sleep=sleep)
    async with asyncio.timeout(30):
        await calibrator.run()
    assert len(slept) == 1
    assert calibrator.of(provider) is not None


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    provider = FakeProvider(dimension=16)
    calibrator = Calibrator([provider], tmp_path, may_embed=False)
    await calibrator.run()
    assert (calibrator.of(provider), calibrator.state(provider)) == (None, "off")


async def test_a_model_that_distinguishes_nothing_is_called_unusable(tmp_path: Path) -> None:
    class Constant(FakeProvider):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            return np.full((len(texts), 16), 0.25, dtype=np.float32)

        async def embed_query(self, text: str) -> Vectors:
            return np.full(16, 0.25, dtype=np.float32)

    provider = Constant(dimension=16)
    calibrator = Calibrator([provider], tmp_path)
    async with asyncio.timeout(30):
        await calibrator.run()
    assert (calibrator.of(provider), calibrator.state(provider)) == (None, "unusable")


def test_a_file_of_another_model_or_a_damaged_one_is_not_read() -> None:
    made = Calibration(Scale(2.0, -0.5), np.eye(4, dtype=np.float32))
    data = packed("key", made)
    read = unpacked(data, "key")
    assert read is not None
    assert read.scale == made.scale
    assert np.allclose(read.background, made.background)
    assert unpacked(data, "other") is None
    assert unpacked(data[: len(data) // 2], "key") is None
    assert unpacked(b"", "key") is None


def test_the_key_changes_with_the_model_and_the_texts() -> None:
    small, large = FakeProvider(dimension=16), FakeProvider(dimension=32)
    assert (
        len(
            {
                calibration_key(small, FEW),
                calibration_key(large, FEW),
                calibration_key(small, calibration_texts()),
            }
        )
        == 3
    )


def test_a_scale_maps_both_means_to_the_reference() -> None:
    similarities = np.array([[0.9, 0.7], [0.7, 0.9]], dtype=np.float32)
    scale = scale_of([similarities])
    assert scale is not None
    assert scale.factor * 0.9 + scale.offset == pytest.approx(0.511, abs=1e-3)
    assert scale.factor * 0.7 + scale.offset == pytest.approx(0.058, abs=1e-3)
    assert scale_of([np.full((2, 2), 0.8, dtype=np.float32)]) is None, "it tells nothing apart"


async def test_texts_that_all_look_alike_give_no_calibration() -> None:
    class Constant(FakeProvider):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            return np.full((len(texts), 4), 0.5, dtype=np.float32)

        async def embed_query(self, text: str) -> Vectors:
            return np.full(4, 0.5, dtype=np.float32)

    assert await calibrate(Constant(), FEW) is None
