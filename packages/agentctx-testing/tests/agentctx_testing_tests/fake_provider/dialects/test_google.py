from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer, running

PATH = "/google/v1beta/models/gemini-embedding-001"


def request(*texts: str, **fields: Any) -> dict[str, Any]:
    parts = [{"text": text} for text in texts]
    return {"model": "models/gemini-embedding-001", "content": {"parts": parts}, **fields}


async def batch(http: httpx.AsyncClient, *requests: object) -> httpx.Response:
    return await http.post(f"{PATH}:batchEmbedContents", json={"requests": requests})


async def test_a_batch_has_a_vector_for_each_request(http: httpx.AsyncClient) -> None:
    reply = (await batch(http, request("a"), request("b", "c"))).json()
    first, merged = (item["values"] for item in reply["embeddings"])
    single = (await http.post(f"{PATH}:embedContent", json=request("a"))).json()
    assert single == {"embedding": {"values": first}}
    both = (await http.post(f"{PATH}:embedContent", json=request("b\nc"))).json()
    assert both["embedding"]["values"] == merged


async def test_a_shortened_vector_is_not_of_unit_length(http: httpx.AsyncClient) -> None:
    whole, short = [
        (await batch(http, request("a b", **fields))).json()["embeddings"][0]["values"]
        for fields in ({}, {"outputDimensionality": 3})
    ]
    assert short == whole[:3]
    assert np.linalg.norm(whole) == pytest.approx(1)
    assert np.linalg.norm(short) < 0.99


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "is required"),
        ([request("a")] * 101, "at most 100 requests"),
        ([request("")], "empty Part"),
        ([request()], "empty Part"),
        ([{**request("a"), "model": "models/other"}], "must be the one in the path"),
        ([{"content": {"parts": [{"text": "a"}]}}], "must be the one in the path"),
        ([request("a"), request("a", outputDimensionality=3)], "same output_dimensionality"),
        (["a"], "Invalid JSON payload"),
        ([{**request("a"), "content": "a"}], "empty Part"),
    ],
)
async def test_google_refuses_invalid_requests(
    http: httpx.AsyncClient, requests: list[Any], message: str
) -> None:
    reply = await batch(http, *requests)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert message in error["message"]


async def test_keys() -> None:
    body = {"requests": [request("a")]}
    async with running(key="right", dimension=4) as own, httpx.AsyncClient(trust_env=False) as http:
        url = f"{own.base_url('google')}/models/gemini-embedding-001:batchEmbedContents"
        missing = await http.post(url, json=body)
        assert (missing.status_code, missing.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
        wrong = await http.post(url, json=body, headers={"x-goog-api-key": "wrong"})
        assert (wrong.status_code, wrong.json()["error"]["details"][0]["reason"]) == (400, "API_KEY_INVALID")
        assert (await http.post(url, json=body, params={"key": "right"})).status_code == 200
        assert [seen.has_key for seen in own.requests] == [False, True, True]


async def test_a_hint_can_be_in_the_body(server: FakeProviderServer, http: httpx.AsyncClient) -> None:
    server.script(HttpFault.with_status(429, hint="retry_info", after_s=34))
    error = (await batch(http, request("a"))).json()["error"]
    assert error["status"] == "RESOURCE_EXHAUSTED"
    assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]


async def test_an_empty_reply(server: FakeProviderServer, http: httpx.AsyncClient) -> None:
    server.script(HttpFault(kind="empty"))
    assert (await batch(http, request("a"))).json() == {"embeddings": []}
    assert (await http.post(f"{PATH}:embedContent", json=request("a"))).json() == {"embedding": {}}
