from __future__ import annotations

import asyncio
import fcntl
import hashlib
import signal
import threading
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.embedding.providers.embedded import provider as module
from agentctx.embedding.providers.embedded.built_models import MINILM, MULTILINGUAL
from agentctx.embedding.providers.embedded.cache import find_built, model_folder
from agentctx.embedding.providers.embedded.model import SentenceModel, load_model
from agentctx.embedding.providers.embedded.provider import EmbeddedProvider, build_in_subprocess
from agentctx.embedding.providers.embedded.weights import MODEL, TOKENIZER
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors
from agentctx_testing.conformance.embedding_providers import BlockBatches, Make, ProviderConformance
from tests.embedding.providers.embedded.multilingual.installed import needs_weights
from tests.embedding.providers.embedded.tiny import DIMENSION, write_model, write_tiny


@contextmanager
def block_lane(provider: EmbeddedProvider) -> Iterator[None]:
    """Keep the batch thread busy."""
    gate = threading.Event()
    provider._batches._executor.submit(gate.wait)
    try:
        yield
    finally:
        gate.set()


class EmbeddedConformance(ProviderConformance):
    @pytest.fixture
    def block_batches(self) -> BlockBatches:
        return block_lane


class TestDefaultModel(EmbeddedConformance):
    @pytest.fixture
    def make(self, built_cache: Path) -> Make:
        return lambda: EmbeddedProvider(cache=built_cache)


@needs_weights
@pytest.mark.slow  # the same code; its graph has tests of its own
class TestMultilingualModel(EmbeddedConformance):
    @pytest.fixture
    def make(self, built_multilingual: Path) -> Make:
        return lambda: EmbeddedProvider(cache=built_multilingual, built=MULTILINGUAL)


class TestOwnModel(EmbeddedConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        write_tiny(tmp_path)
        return lambda: EmbeddedProvider(tmp_path)


async def test_two_threads_give_the_same_vectors(built_cache: Path) -> None:
    one, two = (EmbeddedProvider(cache=built_cache, threads=threads) for threads in (1, 2))
    assert np.array_equal(
        await one.embed(["a cat", "the dog ran " * 60]), await two.embed(["a cat", "the dog ran " * 60])
    )
    assert two.cpu_seconds > 0
    await asyncio.gather(one.aclose(), two.aclose())


@pytest.fixture(scope="session")
def minilm(built_cache: Path) -> SentenceModel:
    path = find_built(built_cache)
    assert path is not None
    return load_model(path, TOKENIZER.verified(), threads=1)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("a cat sits on the mat", "a kitten rests on a rug", "the invoice is due in March"),
        ("how do I rotate the API key?", "credentials are renewed every 90 days", "lunch is at noon"),
        ("database is locked", "SQLite reports SQLITE_BUSY", "the cathedral was finished in 1880"),
    ],
)
def test_similar_meanings_are_nearer(minilm: SentenceModel, query: str, near: str, far: str) -> None:
    asked, expected, unrelated = (minilm.vector(text, 384)[0][0] for text in (query, near, far))
    assert asked @ expected > asked @ unrelated + 0.1


async def test_the_end_of_1500_tokens_counts_and_long_texts_are_counted(built_cache: Path) -> None:
    provider = EmbeddedProvider(cache=built_cache)
    start = "the weather report says rain " * 300
    without, with_end = await provider.embed([start, start + "the quarterly invoice of the lawyer " * 30])
    topic = await provider.embed_query("an invoice from a law firm")
    assert topic @ with_end > topic @ without + 0.05
    assert provider.windowed_texts == 2
    assert provider.cpu_seconds > 0
    await provider.aclose()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_any_text_has_the_same_vector_alone_and_in_a_batch(minilm: SentenceModel, texts: list[str]) -> None:
    async def compare() -> None:
        provider = await provider_with(minilm)
        together = await provider.embed(texts)
        for row, text in zip(together, texts, strict=True):
            assert np.array_equal(row, await provider.embed_query(text))
        await provider.aclose()

    asyncio.run(compare())


async def provider_with(model: SentenceModel) -> EmbeddedProvider:
    """Return a provider that has already loaded `model`."""

    async def loaded() -> SentenceModel:
        return model

    provider = EmbeddedProvider()
    provider._loading = asyncio.create_task(loaded())
    return provider


def test_the_fingerprint_names_the_files_by_checksum() -> None:
    fingerprint = EmbeddedProvider().fingerprint
    assert fingerprint["model"] == "all-MiniLM-L6-v2"
    assert (fingerprint["weights"], fingerprint["tokenizer"]) == (MODEL.sha256, TOKENIZER.sha256)
    assert (fingerprint["dimension"], fingerprint["pooling"], fingerprint["window"]) == (384, "mean", 256)


def test_a_custom_model_is_identified_by_its_content(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "moved", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
        write_tiny(folder)
    write_model(folders[2] / "model.onnx", pooled=True)
    one, moved, other = (EmbeddedProvider(folder).fingerprint for folder in folders)
    assert one == moved != other
    assert one["weights"] == hashlib.sha256((folders[0] / "model.onnx").read_bytes()).hexdigest()


async def test_a_path_may_name_the_model_file(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    path = (tmp_path / "model.onnx").rename(tmp_path / "tiny-v2.onnx")
    provider = EmbeddedProvider(path)
    assert (provider.model, provider.dimension) == ("tiny-v2", 0)
    await provider.embed_query("cat")
    assert provider.dimension == DIMENSION
    await provider.aclose()


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    write_tiny(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ConfigInvalid, match=missing):
        EmbeddedProvider(tmp_path)


async def test_an_unusable_model_stops_until_it_is_repaired(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    write_model(tmp_path / "model.onnx", inputs=("pixels",))
    provider = EmbeddedProvider(tmp_path)
    for call in (provider.embed(["cat"]), provider.embed_query("cat")):
        with pytest.raises(ProviderFailed, match="has the inputs pixels") as caught:
            await call
        assert caught.value.disposition is Disposition.STOP
        assert isinstance(caught.value.__cause__, ConfigInvalid)
    write_model(tmp_path / "model.onnx")
    assert (await provider.embed_query("cat")).shape == (DIMENSION,)
    await provider.aclose()


async def test_an_unexpected_dimension_stops(tmp_path: Path) -> None:
    provider = EmbeddedProvider(write_tiny(tmp_path), dimension=DIMENSION + 1)
    with pytest.raises(ProviderFailed, match=r"embedding\.dimensions|Expected") as caught:
        await provider.embed(["cat"])
    assert caught.value.disposition is Disposition.STOP
    await provider.aclose()


class GatedLoad:
    """`load_model`, counted and held at a gate."""

    def __init__(self) -> None:
        self.loads = 0
        self.gate = threading.Event()
        self.started = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, model: Path, tokenizer: Path, *, threads: int) -> SentenceModel:
        self.loads += 1
        self._loop.call_soon_threadsafe(self.started.set)
        assert self.gate.wait(30)
        return load_model(model, tokenizer, threads=threads)


@pytest.fixture
async def gated(monkeypatch: pytest.MonkeyPatch) -> GatedLoad:
    load = GatedLoad()
    monkeypatch.setattr(module, "load_model", load)
    return load


async def test_first_calls_share_one_load_that_survives_a_cancellation(
    tmp_path: Path, gated: GatedLoad
) -> None:
    provider = EmbeddedProvider(write_tiny(tmp_path))
    first = asyncio.create_task(provider.embed_query("cat"))
    others = [asyncio.create_task(provider.embed(["dog"])) for _ in range(3)]
    await gated.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gated.gate.set()
    await asyncio.gather(*others)
    assert gated.loads == 1
    await provider.aclose()


async def test_closing_during_the_load_fails_waiting_calls(tmp_path: Path, gated: GatedLoad) -> None:
    provider = EmbeddedProvider(write_tiny(tmp_path))
    call = asyncio.create_task(provider.embed_query("cat"))
    await gated.started.wait()
    await provider.aclose()
    with pytest.raises(ProviderFailed, match="closed"):
        await call
    gated.gate.set()


class CountingModel(SentenceModel):
    """A model that waits at a gate for every text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.gate = threading.Event()
        self.started = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def vector(self, text: str, dimension: int) -> tuple[Vectors, int]:
        self.texts.append(text)
        self._loop.call_soon_threadsafe(self.started.set)
        assert self.gate.wait(30)
        return np.ones((1, dimension), np.float32), 1

    def return_memory(self) -> None: ...


@pytest.fixture
async def counting() -> CountingModel:
    return CountingModel()


async def test_a_cancelled_batch_stops_after_the_current_text(counting: CountingModel) -> None:
    provider = await provider_with(counting)
    batch = asyncio.create_task(provider.embed(["one", "two", "three"]))
    await counting.started.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    counting.gate.set()
    await provider.embed(["next"])
    assert counting.texts == ["one", "next"]
    await provider.aclose()


async def test_closing_stops_a_batch_after_the_current_text(counting: CountingModel) -> None:
    provider = await provider_with(counting)
    counting.gate = provider._batches._closing
    batch = asyncio.create_task(provider.embed(["one", "two", "three"]))
    await counting.started.wait()
    await provider.aclose()
    with pytest.raises(ProviderFailed, match="closed") as caught:
        await batch
    assert caught.value.disposition is Disposition.RETRY
    assert counting.texts == ["one"]


@pytest.mark.parametrize("position", [0, 1])
async def test_wrong_weights_stop(tmp_path: Path, position: int) -> None:
    sources = list(MINILM.sources)
    sources[position] = replace(sources[position], sha256="0" * 64)
    provider = EmbeddedProvider(cache=tmp_path, built=replace(MINILM, sources=tuple(sources)))
    with pytest.raises(ProviderFailed, match="unexpected sha256") as caught:
        await provider.embed(["cat"])
    assert caught.value.disposition is Disposition.STOP
    await provider.aclose()


async def test_the_first_call_builds_a_missing_or_damaged_model(tmp_path: Path, built_cache: Path) -> None:
    folder = model_folder(tmp_path)
    folder.mkdir(parents=True)
    source = find_built(built_cache)
    assert source is not None
    (folder / "model.onnx").write_bytes(source.read_bytes()[:-1])
    (folder / "model.onnx.sha256").write_text(source.with_name("model.onnx.sha256").read_text())
    fresh, usual = EmbeddedProvider(cache=tmp_path), EmbeddedProvider(cache=built_cache)
    assert np.array_equal(await fresh.embed_query("a cat"), await usual.embed_query("a cat"))
    assert find_built(tmp_path) is not None
    await fresh.aclose()
    await usual.aclose()


@pytest.mark.parametrize("place", ["a file/agentctx", "/proc/agentctx"])
async def test_a_cache_that_cannot_be_written_is_named_with_the_variable_that_moves_it(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(ProviderFailed, match="XDG_CACHE_HOME") as caught:
        await build_in_subprocess(tmp_path / place)
    assert place in caught.value.message
    assert caught.value.disposition is Disposition.STOP


async def test_an_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ProviderFailed, match="the cache cannot be written") as caught:
        await build_in_subprocess(tmp_path)
    assert caught.value.disposition is Disposition.RETRY
    assert "agentctx.embedding.providers.embedded" in caught.value.hint


async def test_cancelling_a_build_kills_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = asyncio.create_subprocess_exec, asyncio.get_running_loop().create_future()

    async def start_observed(*command: Any, **options: Any) -> Process:
        process = await start(*command, **options)
        started.set_result(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_observed)
    model_folder(tmp_path).mkdir(parents=True)
    with (model_folder(tmp_path) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        building = asyncio.create_task(build_in_subprocess(tmp_path))
        process: Process = await started
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
    assert process.returncode == -signal.SIGKILL
