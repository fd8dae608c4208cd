from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentctx_testing.fake_provider.dialects.voyage import max_tokens
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer


async def embed(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await http.post("/voyage/v1/embeddings", json={"model": "voyage-4", "input": ["a"], **body})


async def rerank(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    whole = {"model": "rerank-2.5", "query": "cat", "documents": ["dog", "cat"], **body}
    return await http.post("/voyage/v1/rerank", json=whole)


async def test_vectors(http: httpx.AsyncClient) -> None:
    reply = (await embed(http, input=["a", "b"], input_type="query", output_dimension=4)).json()
    assert [(item["index"], len(item["embedding"])) for item in reply["data"]] == [(0, 4), (1, 4)]
    assert reply["usage"] == {"total_tokens": 2}
    coded = (await embed(http, encoding_format="base64")).json()
    assert isinstance(coded["data"][0]["embedding"], str)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"input": []}, "empty strings or empty lists"),
        ({"input": ["a", ""]}, "empty strings or empty lists"),
        ({"input": ["a"] * 1_001}, "batch size limit is 1000"),
        ({"input": ["x" * 4 * 8_000] * 41}, "320000"),
        ({"input_type": "search_query"}, "input_type must be"),
        ({"input_type": ["query"]}, "input_type must be"),
        ({"encoding_format": "float"}, "encoding_format must be"),
        ({"output_dtype": "int8"}, "supports only"),
    ],
)
async def test_invalid_requests_are_refused(
    http: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    reply = await embed(http, **body)
    assert reply.status_code == 400
    assert message in reply.json()["detail"]


def test_the_token_limit_is_the_models() -> None:
    assert max_tokens("voyage-4-lite") == 1_000_000
    assert max_tokens("voyage-4") == 320_000
    assert max_tokens("voyage-4-large") == max_tokens("voyage-code-3") == 120_000


async def test_scores(http: httpx.AsyncClient) -> None:
    data = (await rerank(http, top_k=1)).json()["data"]
    assert data == [{"relevance_score": 1.0, "index": 1}]
    wrong: list[dict[str, Any]] = [{"documents": []}, {"documents": ["a"] * 1_001}, {"top_k": 0}]
    for body in wrong:
        assert (await rerank(http, **body)).status_code == 400


async def test_errors(server: FakeProviderServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        assert (await rerank(http)).status_code == 401
        server.script(HttpFault.with_status(429, hint="seconds", after_s=3))
        reply = await embed(http)
    assert (reply.status_code, reply.json()) == (429, {"detail": "scripted fault"})
    assert reply.headers["retry-after"] == "3"
