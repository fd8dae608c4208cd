"""The suite of embedding providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np
import pytest

from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.errors import Disposition, ProviderFailed

Make: TypeAlias = Callable[[], EmbeddingProvider]
BlockBatches: TypeAlias = Callable[[Any], AbstractContextManager[None]]
"""Keeps batches of the provider from making progress until the context ends."""

TEXTS = [
    "the cat sat on the mat",
    "a",
    " ",
    "",
    "NUL \x00 inside",
    "🎉 Grüße, 世界! 👩‍👩‍👧‍👦",
    "def f(x):\n\treturn x ** 2",
    "[SEP] [PAD] [CLS]",
    "the dog ran " * 120,
]


class ProviderConformance:
    """Expects a fixture `make`: a function that creates the provider.

    Override `block_batches` for a provider whose batches can be made to wait.
    """

    @pytest.fixture
    def block_batches(self) -> BlockBatches:
        pytest.skip("no fixture `block_batches`")

    @pytest.fixture
    async def provider(self, make: Make) -> AsyncIterator[EmbeddingProvider]:
        provider = make()
        yield provider
        await provider.aclose()

    async def test_vectors_are_float32_rows_of_unit_length(self, provider: EmbeddingProvider) -> None:
        vectors = await provider.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), provider.dimension)
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)

    async def test_query_is_one_row(self, provider: EmbeddingProvider) -> None:
        vector = await provider.embed_query("the cat")
        assert vector.shape == (provider.dimension,)
        assert vector.dtype == np.float32

    async def test_a_text_has_the_same_vector_alone_in_a_batch_and_as_query(
        self, provider: EmbeddingProvider
    ) -> None:
        together = await provider.embed(TEXTS)
        for row, text in zip(together, TEXTS, strict=True):
            assert np.array_equal(row, await provider.embed_query(text))
            assert np.array_equal(row, (await provider.embed([text]))[0])

    async def test_order_is_preserved(self, provider: EmbeddingProvider) -> None:
        forward = await provider.embed(["cat", "dog", "mat"])
        backward = await provider.embed(["mat", "dog", "cat"])
        assert np.array_equal(forward, backward[::-1])
        assert not np.array_equal(forward[0], forward[1])

    async def test_no_texts_give_no_rows(self, provider: EmbeddingProvider) -> None:
        vectors = await provider.embed([])
        assert vectors.shape == (0, provider.dimension)
        assert provider.dimension > 0
        assert vectors.dtype == np.float32

    async def test_two_instances_agree(self, make: Make, provider: EmbeddingProvider) -> None:
        other = make()
        assert other.fingerprint == provider.fingerprint
        assert np.array_equal(await other.embed(TEXTS), await provider.embed(TEXTS))
        await other.aclose()

    async def test_the_fingerprint_does_not_change_with_use(self, provider: EmbeddingProvider) -> None:
        before = dict(provider.fingerprint)
        await provider.embed(["cat"])
        assert dict(provider.fingerprint) == before
        assert before["provider"] == provider.id

    async def test_an_unpaired_surrogate_is_buried_alone_and_split_in_a_batch(
        self, provider: EmbeddingProvider
    ) -> None:
        for alone in (provider.embed(["a \ud800 b"]), provider.embed_query("\udfff")):
            with pytest.raises(ProviderFailed) as caught:
                await alone
            assert caught.value.disposition is Disposition.BURY
        with pytest.raises(ProviderFailed) as caught:
            await provider.embed(["good", "\ud800"])
        assert caught.value.disposition is Disposition.SPLIT

    async def test_a_query_does_not_wait_behind_batches(
        self, provider: EmbeddingProvider, block_batches: BlockBatches
    ) -> None:
        with block_batches(provider):
            batches = [asyncio.create_task(provider.embed(["cat"] * 5)) for _ in range(3)]
            async with asyncio.timeout(30):
                await asyncio.gather(*(provider.embed_query(text) for text in ("cat", "dog", "mat")))
            assert not any(batch.done() for batch in batches)
        assert [len(vectors) for vectors in await asyncio.gather(*batches)] == [5, 5, 5]

    async def test_a_cancelled_call_leaves_the_provider_usable(
        self, provider: EmbeddingProvider, block_batches: BlockBatches
    ) -> None:
        with block_batches(provider):
            batch = asyncio.create_task(provider.embed(["cat"]))
            await provider.embed_query("dog")
            batch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await batch
        assert (await provider.embed(["cat"])).shape == (1, provider.dimension)

    async def test_calls_after_close_fail(self, make: Make) -> None:
        provider = make()
        await provider.embed_query("cat")
        await provider.aclose()
        await provider.aclose()
        for call in (provider.embed(["cat"]), provider.embed([]), provider.embed_query("cat")):
            with pytest.raises(ProviderFailed, match="closed"):
                await call

    async def test_an_unused_provider_can_be_closed(self, make: Make) -> None:
        await make().aclose()

    def test_it_describes_itself(self, make: Make) -> None:
        provider = make()
        assert provider.id
        assert provider.name
        assert provider.model
        assert provider.limits.max_inputs > 0
        assert provider.fingerprint["provider"] == provider.id
        assert provider.cpu_seconds == 0
