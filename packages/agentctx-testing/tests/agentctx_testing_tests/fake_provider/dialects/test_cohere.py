from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer


async def embed(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    whole = {"model": "embed-v4.0", "input_type": "search_document", "texts": ["a"], **body}
    return await http.post("/cohere/v2/embed", json=whole)


async def rerank(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    whole = {"model": "rerank-v4.0-pro", "query": "cat", "documents": ["dog", "cat"], **body}
    return await http.post("/cohere/v2/rerank", json=whole)


async def test_queries_and_documents_are_in_one_space(http: httpx.AsyncClient) -> None:
    document = (await embed(http, texts=["a b", ""], output_dimension=4)).json()
    query = (await embed(http, texts=["a b"], input_type="search_query", output_dimension=4)).json()
    assert document["embeddings"]["float"][0] == query["embeddings"]["float"][0]
    assert [len(vector) for vector in document["embeddings"]["float"]] == [4, 4]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"texts": []}, "must be provided"),
        ({"texts": ["a"] * 97}, "at most 96 - received 97"),
        ({"input_type": None}, "valid input_type must be provided"),
        ({"embedding_types": ["int8"]}, "supports only"),
    ],
)
async def test_invalid_requests_are_refused(
    http: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    reply = await embed(http, **body)
    assert reply.status_code == 400
    assert message in reply.json()["message"]


async def test_documents_are_ranked_best_first(http: httpx.AsyncClient) -> None:
    results = (await rerank(http)).json()["results"]
    assert [result["index"] for result in results] == [1, 0]
    assert [result["relevance_score"] for result in results] == [1.0, 0.0]
    assert len((await rerank(http, top_n=1)).json()["results"]) == 1


@pytest.mark.parametrize(
    "body", [{"documents": []}, {"documents": ["a"] * 1_001}, {"top_n": 0}, {"query": ""}, {"model": None}]
)
async def test_a_wrong_question_for_scores_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await rerank(http, **body)).status_code == 400


async def test_scores_can_be_spoiled(server: FakeProviderServer, http: httpx.AsyncClient) -> None:
    server.script(HttpFault(kind="too_many", request=1), HttpFault(kind="empty"))
    assert [result["index"] for result in (await rerank(http)).json()["results"]] == [1, 0, 2]
    assert (await rerank(http)).json()["results"] == []


async def test_a_key_is_needed(server: FakeProviderServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        reply = await embed(http)
    assert (reply.status_code, reply.json()["message"]) == (401, "no api key supplied")
