from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.embedding.providers.remote.provider import BATCH_LANES, RemoteProvider
from agentctx.errors import Disposition, ProviderFailed
from agentctx_testing.conformance.embedding_providers import BlockBatches, Make, ProviderConformance
from tests.embedding.providers.remote.conftest import MakeProvider
from tests.embedding.providers.remote.loopback import Loopback, loopback, replies
from tests.embedding.providers.remote.wire_answers import ANSWERS, DIMENSION, openai_compatible, settings_of


@pytest.mark.parametrize("service", list(ANSWERS))
class TestConformance(ProviderConformance):
    @pytest.fixture
    async def server(self, service: str) -> AsyncIterator[Loopback]:
        async with loopback(ANSWERS[service]) as running:
            yield running

    @pytest.fixture
    def make(self, service: str, server: Loopback) -> Make:
        settings = EmbeddingSettings.model_validate(settings_of(service, server.base_url))

        def create() -> EmbeddingProvider:
            provider = create_provider(settings)
            assert provider is not None
            return provider

        return create

    @pytest.fixture
    def block_batches(self) -> BlockBatches:
        @contextmanager
        def block(provider: RemoteProvider) -> Iterator[None]:
            lanes = provider._batch_lanes
            lanes._value = 0
            yield
            for _ in range(BATCH_LANES):
                lanes.release()

        return block


async def test_a_query_overtakes_hanging_batches(server: Loopback, connect: MakeProvider) -> None:
    provider = connect()
    server.hangs = lambda request: len(request.body["input"]) > 1
    batches = [asyncio.create_task(provider.embed(["cat", "dog"])) for _ in range(2 * BATCH_LANES)]
    for _ in range(BATCH_LANES):
        await server.arrived.acquire()
    async with asyncio.timeout(30):
        assert (await provider.embed_query("cat")).shape == (DIMENSION,)
    server.release.set()
    assert [len(vectors) for vectors in await asyncio.gather(*batches)] == [2] * len(batches)


async def test_connections_are_reused(server: Loopback, connect: MakeProvider) -> None:
    provider = connect()
    for text in ("cat", "dog", "mat"):
        await provider.embed_query(text)
    assert (len(server.received), server.connections) == (3, 1)


async def test_a_long_list_is_split_into_requests_and_keeps_its_order(
    server: Loopback, connect: MakeProvider
) -> None:
    server.answer = ANSWERS["openai-compatible"]
    provider = connect("openai-compatible")
    texts = [f"text {number}" for number in range(70)]
    vectors = await provider.embed(texts)
    assert [len(request.body["input"]) for request in server.received] == [32, 32, 6]
    assert np.array_equal(vectors[69], await provider.embed_query("text 69"))


async def test_the_dimension_is_known_after_the_first_reply(server: Loopback, connect: MakeProvider) -> None:
    server.answer = openai_compatible
    provider = connect("openai-compatible", dimensions=0)
    assert provider.dimension == 0
    assert (await provider.embed([])).shape == (0, 0)
    await provider.embed_query("cat")
    assert provider.dimension == DIMENSION
    assert provider.fingerprint["dimension"] == 0
    assert "dimensions" not in server.received[0].body


async def test_an_unexpected_dimension_stops(server: Loopback, connect: MakeProvider) -> None:
    server.answer = ANSWERS["openai-compatible"]
    with pytest.raises(ProviderFailed, match="length 16, got 8") as caught:
        await connect("openai-compatible", dimensions=16).embed(["cat", "dog"])
    assert caught.value.disposition is Disposition.STOP


@pytest.mark.parametrize(
    ("vectors", "disposition"),
    [
        ([[0.0] * DIMENSION, [1.0] * DIMENSION], Disposition.SPLIT),
        ([[float("nan")] * DIMENSION, [1.0] * DIMENSION], Disposition.SPLIT),
        ([[None] * DIMENSION, [1.0] * DIMENSION], Disposition.SPLIT),
        ([[1e300] * DIMENSION, [1.0] * DIMENSION], Disposition.SPLIT),
        ([[], [1.0] * DIMENSION], Disposition.SPLIT),
        ([[1.0] * DIMENSION], Disposition.RETRY),
        ([[1.0] * DIMENSION] * 3, Disposition.RETRY),
        ([], Disposition.RETRY),
    ],
)
async def test_invalid_vectors_are_refused(
    server: Loopback, connect: MakeProvider, vectors: list[object], disposition: Disposition
) -> None:
    server.answer = lambda _: replies({"embeddings": vectors})
    with pytest.raises(ProviderFailed) as caught:
        await connect("ollama").embed(["cat", "dog"])
    assert caught.value.disposition is disposition


async def test_prefixes_are_sent_and_part_of_the_fingerprint(server: Loopback, connect: MakeProvider) -> None:
    provider = connect(query_prefix="query: ", document_prefix="text: ")
    await provider.embed(["cat", ""])
    await provider.embed_query("cat")
    assert [request.body["input"] for request in server.received] == [["text: cat", "text: "], ["query: cat"]]
    assert provider.fingerprint["query_prefix"] == "query: "
    assert provider.fingerprint != connect().fingerprint


async def test_an_empty_text_is_sent_as_a_space(server: Loopback, connect: MakeProvider) -> None:
    await connect().embed_query("")
    assert server.received[0].body["input"] == [" "]


async def test_closing_ends_calls_in_flight(server: Loopback, connect: MakeProvider) -> None:
    provider = connect()
    server.hangs = lambda _: True
    call = asyncio.create_task(provider.embed(["cat"]))
    await server.arrived.acquire()
    await provider.aclose()
    with pytest.raises(ProviderFailed):
        await call
