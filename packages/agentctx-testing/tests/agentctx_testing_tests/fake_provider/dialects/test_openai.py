from __future__ import annotations

import base64
from typing import Any

import httpx
import numpy as np
import pytest

from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer


async def ask(http: httpx.AsyncClient, path: str = "/v1/embeddings", **body: Any) -> httpx.Response:
    return await http.post(path, json={"model": "text-embedding-3-small", **body})


async def test_input_may_be_a_text_a_list_or_tokens(http: httpx.AsyncClient) -> None:
    one = (await ask(http, input="one")).json()
    assert one["object"] == "list"
    assert one["usage"] == {"prompt_tokens": 1, "total_tokens": 1}
    both = (await ask(http, "/openai/v1/embeddings", input=["two", "one"])).json()
    assert [item["index"] for item in both["data"]] == [0, 1]
    assert both["data"][1]["embedding"] == one["data"][0]["embedding"]
    tokens = (await ask(http, input=[5, 6])).json()["data"]
    several = (await ask(http, input=[[5, 6], [7]])).json()["data"]
    assert (len(tokens), len(several)) == (1, 2)
    assert tokens[0]["embedding"] == several[0]["embedding"]


async def test_base64_holds_the_same_numbers(http: httpx.AsyncClient) -> None:
    floats = (await ask(http, input="a b", dimensions=4)).json()["data"][0]["embedding"]
    coded = (await ask(http, input="a b", dimensions=4, encoding_format="base64")).json()
    decoded = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
    np.testing.assert_array_equal(decoded, np.array(floats, np.float32))
    assert np.linalg.norm(decoded) == pytest.approx(1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"input": ""}, "'$.input' is invalid"),
        ({"input": []}, "'$.input' is invalid"),
        ({"input": ["a", ""]}, "'$.input' is invalid"),
        ({"input": [["a"]]}, "'$.input' is invalid"),
        ({"input": [1, "a"]}, "'$.input' is invalid"),
        ({"input": {"a": 1}}, "'$.input' is invalid"),
        ({"input": ["a"] * 2_049}, "maximum length 2048"),
        ({"input": "x" * 4 * 8_193}, "maximum context length is 8192 tokens, however you requested 8193"),
        ({"input": ["x" * 4 * 8_000] * 38}, "max 300000 tokens per request"),
        ({"input": "a", "dimensions": 9}, "from 1 to 8"),
        ({"input": "a", "dimensions": "9"}, "dimensions must be a number"),
        ({"input": "a", "encoding_format": ["hex"]}, "Invalid value"),
        ({"input": "a", "model": ""}, "model is required"),
        ({"input": "a", "model": "text-embedding-ada-002", "dimensions": 4}, "does not support specifying"),
    ],
)
async def test_openai_refuses_invalid_requests(
    http: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    reply = await ask(http, **body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert message in error["message"]


async def test_requests_at_the_limits_are_accepted(http: httpx.AsyncClient) -> None:
    assert (await ask(http, input=["a"] * 2_048)).status_code == 200
    assert (await ask(http, input="x" * 4 * 8_192)).status_code == 200


async def test_a_body_that_is_not_json_is_refused(http: httpx.AsyncClient) -> None:
    for content in (b"{", b"[]"):
        reply = await http.post("/v1/embeddings", content=content)
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_keys(http: httpx.AsyncClient) -> None:
    for value in ("", "Bearer", "Basic k"):
        reply = await http.post("/v1/embeddings", json={}, headers={"Authorization": value})
        assert reply.status_code == 401
        assert "didn't provide an API key" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (HttpFault.with_status(401), "invalid_request_error", "invalid_api_key"),
        (HttpFault.with_status(404), "invalid_request_error", "model_not_found"),
        (HttpFault.with_status(429), "requests", "rate_limit_exceeded"),
        (HttpFault.with_status(429, code="insufficient_quota"), "insufficient_quota", "insufficient_quota"),
        (HttpFault.with_status(503), "server_error", None),
        (HttpFault.with_status(529), "server_error", None),
    ],
)
async def test_errors_have_their_types_and_codes(
    server: FakeProviderServer, http: httpx.AsyncClient, fault: HttpFault, kind: str, code: str | None
) -> None:
    server.script(fault)
    reply = await ask(http, input="a")
    assert reply.status_code == fault.status
    assert reply.json()["error"] == {
        "message": "scripted fault",
        "type": kind,
        "param": None,
        "code": code,
    }


async def test_hints_and_headers_of_the_script_are_sent(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault.with_status(429, hint="date", after_s=90, headers={"X-Should-Retry": "false"}))
    headers = (await ask(http, input="a")).headers
    assert headers["retry-after"] == "Thu, 01 Jan 1970 00:01:30 GMT"
    assert headers["x-should-retry"] == "false"


async def test_wrong_order_is_reported_by_the_index(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    right = (await ask(http, input=["a", "b"])).json()["data"]
    server.script(HttpFault(kind="wrong_order"))
    assert (await ask(http, input=["a", "b"])).json()["data"] == right[::-1]


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_nan_is_sent_in_both_encodings(
    server: FakeProviderServer, http: httpx.AsyncClient, encoding: str
) -> None:
    server.script(HttpFault(kind="nan"))
    sent = (await ask(http, input="a", encoding_format=encoding)).json()["data"][0]["embedding"]
    numbers = np.frombuffer(base64.b64decode(sent), "<f4") if encoding == "base64" else np.array(sent)
    assert np.isnan(numbers).all()


async def test_a_compatible_server_needs_no_key_and_takes_less(server: FakeProviderServer) -> None:
    url = f"{server.base_url('openai-compatible')}/embeddings"
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await ask(http, url, input=["a"] * 32)).status_code == 200
        assert (await ask(http, url, input=["a"] * 33)).status_code == 413
        assert (await ask(http, url, input=["a"], dimensions=4)).status_code == 400
