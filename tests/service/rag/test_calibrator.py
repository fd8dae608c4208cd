"""Calibrations are packaged, kept in a file, or made in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.canary import embed_canary
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.embedding.queue.lane import Lane
from agentctx.errors import Disposition, ProviderFailed
from agentctx.service.rag.calibration import CalibrationTexts, calibration_of, calibration_texts, scale_of
from agentctx.service.rag.calibrator import (
    AT_ONCE,
    Calibrator,
    calibration_key,
    kept_calibration,
    packed,
    pause_s,
    unpacked,
)
from agentctx.service.rag.relevance import Scale
from agentctx.storage.vectors import Vectors

FEW = CalibrationTexts(
    ("some text", "other text"), ("red apple", "green pear"), (("red", "apple"), ("green", "pear"))
)


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


class Model:
    """A model to calibrate, which is well as often as `well` says, and then always."""

    def __init__(self, provider: FakeProvider, *well: bool) -> None:
        self.provider = provider
        self.well = list(well)
        self.suspected = 0

    async def answered(self) -> Vectors:
        return await embed_canary(FakeProvider(self.provider.dimension, model=self.provider.model))

    def is_well(self) -> bool:
        return self.well.pop(0) if self.well else True

    def suspect(self) -> None:
        self.suspected += 1


async def calibrated(model: Model, folder: Path, *, may_embed: bool = True) -> tuple[Calibrator, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    calibrator = Calibrator([cast("Lane", model)], folder, sleep=sleep, may_embed=may_embed)
    assert calibrator.of(model.provider) is None
    async with asyncio.timeout(30):
        await calibrator.run()
    return calibrator, slept


async def test_the_packaged_calibration_is_that_of_the_embedded_model(tmp_path: Path) -> None:
    provider = create_provider(EmbeddingSettings())
    assert provider is not None
    try:
        known = kept_calibration(provider, tmp_path, await embed_canary(provider))
        assert known is not None
        texts = calibration_texts().background
        assert known.background.shape == (len(texts), provider.dimension)
        fresh = await provider.embed(texts[:8])
        assert (known.background[:8] * fresh).sum(axis=1).min() > 0.99
        assert known.scale == pytest.approx(Scale(), abs=0.05), "the reference, up to rounding"
    finally:
        await provider.aclose()


async def test_another_model_is_calibrated_in_the_background_and_once(tmp_path: Path) -> None:
    model = Model(FakeProvider(dimension=16))
    calibrator, _ = await calibrated(model, tmp_path)
    assert calibrator.state(model.provider) == "ready"
    made = calibrator.of(model.provider)
    assert made is not None
    same = Model(FakeProvider(dimension=16))
    read = (await calibrated(same, tmp_path, may_embed=False))[0].of(same.provider)
    assert read is not None
    assert read.scale == pytest.approx(made.scale, rel=0.01)
    assert same.provider.calls == []


async def test_it_takes_few_requests_also_for_questions(tmp_path: Path) -> None:
    model = Model(FakeProvider(dimension=16))
    _, slept = await calibrated(model, tmp_path)
    assert len(model.provider.calls) <= calibration_texts().total // AT_ONCE + 3
    assert len(slept) == len(model.provider.calls), "with a pause after each"


async def test_questions_with_a_vector_of_their_own_are_asked_as_questions(tmp_path: Path) -> None:
    class PrefixedProvider(FakeProvider):
        @property
        def fingerprint(self) -> dict[str, str | int]:
            return {**super().fingerprint, "query_prefix": "query: "}

    model = Model(PrefixedProvider(dimension=16))
    await calibrated(model, tmp_path)
    asked = [call.texts[0] for call in model.provider.calls if call.query]
    assert sorted(asked) == sorted(text for pair in calibration_texts().prompts for text in pair)


@pytest.mark.parametrize("other", [FakeProvider(24, model="m"), FakeProvider(16, model="n")])
async def test_another_model_under_the_same_name_never_gets_it(tmp_path: Path, other: FakeProvider) -> None:
    class NamedProvider(FakeProvider):
        fingerprint = {"provider": "openai", "model": "m", "dimension": 0}  # noqa: RUF012 - a constant

    first, second = (
        Model(NamedProvider(16, model="m")),
        Model(NamedProvider(other.dimension, model=other.model)),
    )
    made = (await calibrated(first, tmp_path))[0].of(first.provider)
    assert (await calibrated(second, tmp_path, may_embed=False))[0].of(second.provider) is None
    anew = (await calibrated(second, tmp_path))[0].of(second.provider)
    assert made is not None
    assert anew is not None
    assert anew.background.shape[1] == other.dimension
    assert anew.scale != made.scale
    assert files_in(tmp_path) == 1


@pytest.mark.parametrize("retry_after_s", [None, 90.0])
async def test_an_interrupted_calibration_resumes_where_it_stopped(
    tmp_path: Path, retry_after_s: float | None
) -> None:
    fault = FakeFault.fails(Disposition.LATER, retry_after_s=retry_after_s, call=5)
    model = Model(FakeProvider(dimension=16, faults=[fault]))
    calibrator, slept = await calibrated(model, tmp_path)
    assert calibrator.state(model.provider) == "ready"
    assert max(slept) == (retry_after_s or 5.0)
    assert model.suspected == 1
    texts = [text for call in model.provider.calls for text in call.texts]
    assert len(texts) == len(set(texts)) + AT_ONCE, "only the refused part is sent again"


async def test_it_resumes_after_a_restart_too(tmp_path: Path) -> None:
    class Restart(BaseException):
        pass

    async def stop(seconds: float) -> None:
        if seconds >= 5:
            raise Restart

    model = Model(FakeProvider(dimension=16, faults=[FakeFault.fails(Disposition.LATER, call=5)]))
    with pytest.raises(BaseExceptionGroup):
        await Calibrator([cast("Lane", model)], tmp_path, sleep=stop).run()
    again = Model(FakeProvider(dimension=16))
    assert (await calibrated(again, tmp_path))[0].state(again.provider) == "ready"
    first, second = ({t for call in each.provider.calls for t in call.texts} for each in (model, again))
    assert len(first & second) == AT_ONCE
    assert files_in(tmp_path) == 1


async def test_nothing_is_sent_while_the_provider_is_not_well(tmp_path: Path) -> None:
    model = Model(FakeProvider(dimension=16), False, False, False)
    _, slept = await calibrated(model, tmp_path)
    assert slept[:3] == [5.0] * 3
    assert model.suspected == 0


async def test_texts_that_the_model_cannot_embed_are_left_out(tmp_path: Path) -> None:
    texts = calibration_texts()
    bad = {texts.memories[3], texts.background[7]}
    fault = FakeFault.fails(Disposition.RETRY, when=lambda text: text in bad)
    model = Model(FakeProvider(dimension=16, faults=[fault]))
    calibrator, _ = await calibrated(model, tmp_path)
    made = calibrator.of(model.provider)
    assert made is not None
    assert len(made.background) == len(texts.background) - 1
    assert len(model.provider.calls) < 60


def test_the_pauses_grow_and_heed_the_provider() -> None:
    assert [pause_s(ProviderFailed("no"), failures) for failures in (1, 2, 9)] == [5, 10, 60]
    assert pause_s(ProviderFailed("no", retry_after_s=70.0), 1) == 70


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    model = Model(FakeProvider(dimension=16))
    calibrator, _ = await calibrated(model, tmp_path, may_embed=False)
    assert (calibrator.of(model.provider), calibrator.state(model.provider)) == (None, "off")


async def test_a_model_that_distinguishes_nothing_is_called_unusable(tmp_path: Path) -> None:
    class ConstantProvider(FakeProvider):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            return np.full((len(texts), 16), 0.25, dtype=np.float32)

    model = Model(ConstantProvider(dimension=16))
    calibrator, _ = await calibrated(model, tmp_path)
    assert (calibrator.of(model.provider), calibrator.state(model.provider)) == (None, "unusable")


def test_a_file_of_another_model_or_a_damaged_one_is_not_read() -> None:
    canary, other = np.eye(4, dtype=np.float32)[:2]
    data = packed("key", canary, {0: other, 5: None})
    for known in (canary, None):
        read = unpacked(data, "key", known)
        assert read.keys() == {0, 5}
        assert np.allclose(cast("Vectors", read[0]), other)
        assert read[5] is None
    assert unpacked(data, "key", other) == {}
    assert unpacked(data, "other", canary) == {}
    assert unpacked(data[: len(data) // 2], "key", canary) == {}
    assert unpacked(b"", "key", canary) == {}


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


def test_texts_that_all_look_alike_or_are_mostly_missing_give_no_calibration() -> None:
    alike = np.full(4, 0.5, dtype=np.float32)
    assert calibration_of(FEW, dict.fromkeys(range(FEW.total), alike)) is None
    rows = dict(enumerate(np.eye(8, dtype=np.float32)[:, :4]))
    assert calibration_of(FEW, {**rows, 6: None, 7: None}) is None
    assert calibration_of(FEW, {**rows, 0: None, 5: None}) is None
