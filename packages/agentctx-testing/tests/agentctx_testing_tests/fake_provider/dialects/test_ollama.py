from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer


async def embed(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await http.post("/ollama/api/embed", json={"model": "nomic-embed-text", **body})


async def test_it_asks_for_no_key_and_answers_with_vectors(server: FakeProviderServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        reply = (await embed(http, input=["a b", ""])).json()
    assert reply["model"] == "nomic-embed-text"
    assert [len(vector) for vector in reply["embeddings"]] == [8, 8]
    assert isinstance(reply["prompt_eval_count"], int)


async def test_a_single_text_equals_a_list_and_the_old_path(http: httpx.AsyncClient) -> None:
    [vector] = (await embed(http, input="a b")).json()["embeddings"]
    assert (await embed(http, input=["a b"])).json()["embeddings"] == [vector]
    old = await http.post("/ollama/api/embeddings", json={"model": "nomic-embed-text", "prompt": "a b"})
    assert old.json() == {"embedding": vector}


async def test_nothing_gives_nothing(http: httpx.AsyncClient) -> None:
    assert (await embed(http, input="")).json()["embeddings"] == []
    assert (await embed(http, input=[])).json()["embeddings"] == []
    old = await http.post("/ollama/api/embeddings", json={"model": "m"})
    assert old.json() == {"embedding": []}


@pytest.mark.parametrize(
    "body",
    [{"input": 5}, {"input": ["a", 5]}, {"input": "a", "model": None}, {"input": "a", "dimensions": 9}],
)
async def test_ollama_refuses_invalid_requests(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    reply = await embed(http, **body)
    assert reply.status_code == 400
    assert isinstance(reply.json()["error"], str)


async def test_a_long_text_is_cut_unless_that_is_forbidden(http: httpx.AsyncClient) -> None:
    long = "x" * 4 * 8_193
    assert (await embed(http, input=long)).status_code == 200
    reply = await embed(http, input=long, truncate=False)
    assert (reply.status_code, reply.json()) == (
        400,
        {"error": "the input length exceeds the context length"},
    )


async def test_the_order_cannot_be_wrong(server: FakeProviderServer, http: httpx.AsyncClient) -> None:
    right = (await embed(http, input=["a", "b"])).json()
    server.script(HttpFault(kind="wrong_order"))
    assert (await embed(http, input=["a", "b"])).json() == right
