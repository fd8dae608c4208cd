from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.storage.vectors import Vectors
from benchmarks.vector_cache import CachedEmbedder


class CountingProvider(FakeProvider):
    """Records its questions."""

    def __init__(self, dimension: int = 8) -> None:
        super().__init__(dimension)
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return await super().embed(texts)


async def test_a_later_run_embeds_only_new_texts(tmp_path: Path) -> None:
    first = CachedEmbedder(CountingProvider(), tmp_path)
    vectors = await first.embed(["a", "b", "a"])
    first.save()
    provider = CountingProvider()
    second = CachedEmbedder(provider, tmp_path)
    again = await second.embed(["a", "b", "a", "c"])
    assert provider.asked == ["c"]
    np.testing.assert_array_equal(again[:3], vectors)


async def test_the_vectors_come_from_the_provider(tmp_path: Path) -> None:
    cached = CachedEmbedder(CountingProvider(), tmp_path)
    expected = await FakeProvider(8).embed(["x", "y"])
    np.testing.assert_array_equal(await cached.embed(["x", "y"]), expected)
    np.testing.assert_array_equal(await cached.embed_query("y"), expected[1])


async def test_another_model_has_another_file(tmp_path: Path) -> None:
    first = CachedEmbedder(CountingProvider(8), tmp_path)
    await first.embed(["a"])
    first.save()
    provider = CountingProvider(16)
    assert (await CachedEmbedder(provider, tmp_path).embed(["a"])).shape == (1, 16)
    assert provider.asked == ["a"]


async def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    cached = CachedEmbedder(CountingProvider(), tmp_path)
    cached.save()
    assert _files(tmp_path) == []
    await cached.embed(["a"])
    cached.save()
    for file in _files(tmp_path):
        file.unlink()
    await cached.embed(["a"])
    cached.save()
    assert _files(tmp_path) == []


async def test_a_saved_file_is_alone_in_its_folder(tmp_path: Path) -> None:
    cached = CachedEmbedder(CountingProvider(), tmp_path / "results")
    await cached.embed(["a"])
    cached.save()
    assert [file.suffix for file in _files(tmp_path / "results")] == [".npz"]


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())
