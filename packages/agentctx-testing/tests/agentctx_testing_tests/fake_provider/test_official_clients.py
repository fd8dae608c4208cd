"""The official packages take the fake for the real thing."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer, running
from agentctx_testing_tests.fake_provider.late import Late

if TYPE_CHECKING:
    from cohere import AsyncClientV2
    from openai import AsyncOpenAI

Encoding = Literal["float", "base64"]

openai = Late("openai")
cohere = pytest.importorskip("cohere")


@pytest.fixture
async def openai_client(server: FakeProviderServer) -> AsyncIterator[AsyncOpenAI]:
    url = server.base_url("openai")
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
async def cohere_client(server: FakeProviderServer) -> AsyncIterator[AsyncClientV2]:
    url = server.base_url("cohere")
    async with cohere.AsyncClientV2(base_url=url, api_key="k", max_retries=0) as client:
        yield client


def as_numbers(embedding: object) -> object:
    """Who asks the package for base64 gets base64; who asks for nothing gets it decoded."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), "<f4")
    return embedding


@pytest.mark.parametrize("encoding", ["float", "base64", None])
async def test_openai_takes_vectors(openai_client: AsyncOpenAI, encoding: Encoding | None) -> None:
    reply = await openai_client.embeddings.create(
        model="text-embedding-3-small",
        input=["a b", "c"],
        dimensions=4,
        encoding_format=encoding or openai.omit,
    )
    vectors = np.array([as_numbers(item.embedding) for item in reply.data])
    assert vectors.shape == (2, 4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert (reply.model, reply.object) == ("text-embedding-3-small", "list")
    assert reply.usage.total_tokens == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (HttpFault.with_status(400), "BadRequestError"),
        (HttpFault.with_status(401), "AuthenticationError"),
        (HttpFault.with_status(403), "PermissionDeniedError"),
        (HttpFault.with_status(404), "NotFoundError"),
        (HttpFault.with_status(409), "ConflictError"),
        (HttpFault.with_status(422), "UnprocessableEntityError"),
        (HttpFault.with_status(429, hint="seconds"), "RateLimitError"),
        (HttpFault.with_status(503), "InternalServerError"),
        (HttpFault(kind="reset"), "APIConnectionError"),
    ],
)
async def test_openai_raises_its_own_errors(
    server: FakeProviderServer, openai_client: AsyncOpenAI, fault: HttpFault, error: str
) -> None:
    server.script(fault)
    with pytest.raises(getattr(openai, error)):
        await openai_client.embeddings.create(model="text-embedding-3-small", input="a")


async def test_openai_reads_the_code_of_an_error() -> None:
    async with (
        running(key="right") as server,
        openai.AsyncOpenAI(base_url=server.base_url("openai"), api_key="wrong", max_retries=0) as client,
    ):
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.embeddings.create(model="text-embedding-3-small", input="a")
    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "invalid_request_error")


async def test_openai_heeds_the_retry_hint(server: FakeProviderServer) -> None:
    server.script(HttpFault.with_status(429, hint="milliseconds", after_s=0.001, request=1))
    url = server.base_url("openai")
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=1) as client:
        await client.embeddings.create(model="text-embedding-3-small", input="a")
    assert [seen.fault for seen in server.requests] == ["status", None]


async def test_cohere_takes_vectors_and_scores(cohere_client: AsyncClientV2) -> None:
    reply = await cohere_client.embed(
        model="embed-v4.0",
        texts=["a b", "c"],
        input_type="search_document",
        embedding_types=["float"],
        output_dimension=4,
    )
    assert np.array(reply.embeddings.float_).shape == (2, 4)
    ranked = await cohere_client.rerank(
        model="rerank-v4.0-pro", query="cat", documents=["dog", "cat"], top_n=2
    )
    assert [(result.index, result.relevance_score) for result in ranked.results] == [(1, 1.0), (0, 0.0)]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "BadRequestError"),
        (401, "UnauthorizedError"),
        (403, "ForbiddenError"),
        (404, "NotFoundError"),
        (422, "UnprocessableEntityError"),
        (429, "TooManyRequestsError"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
async def test_cohere_raises_its_own_errors(
    server: FakeProviderServer, cohere_client: AsyncClientV2, status: int, error: str
) -> None:
    server.script(HttpFault.with_status(status, hint="milliseconds", after_s=0))
    with pytest.raises(getattr(cohere.errors, error)) as caught:
        await cohere_client.rerank(model="rerank-v4.0-pro", query="cat", documents=["dog"])
    assert caught.value.body["message"] == "scripted fault"
