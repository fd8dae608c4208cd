"""Calls through the proxy: what reaches the vendor, what comes back."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentctx.llm.injection import InjectionRequest
from agentctx.llm.proxy.body import MAX_BYTES, JsonBody
from agentctx_testing.fake_provider.faults import HttpFault
from tests.llm.proxy.running_proxy import HEADING, MEMORY, QUESTION, RunningProxy, running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPENAI = "/openai/v1/chat/completions"
KEY = {"authorization": "Bearer vendor-key"}
Texts = Callable[[Any], str]


def asked(text: str = QUESTION, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.6", "messages": [{"role": "user", "content": text}], **more}


CALLS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "openai_chat": (OPENAI, KEY, asked()),
    "openai_responses": ("/openai/v1/responses", KEY, {"model": "gpt-5.6", "input": QUESTION}),
    "anthropic": (
        "/anthropic/v1/messages",
        {"x-api-key": "k", "anthropic-version": "2023-06-01"},
        {**asked(), "model": "claude-opus-5", "max_tokens": 50},
    ),
    "anthropic with a bearer": (
        "/anthropic/v1/messages",
        {**KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "x"},
        {**asked(), "model": "claude-opus-5", "max_tokens": 50},
    ),
    "gemini": (
        "/gemini/v1beta/models/gemini-3-flash:generateContent",
        {"x-goog-api-key": "k"},
        {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
    ),
    "ollama": ("/ollama/api/chat", {}, {**asked(stream=False), "model": "llama3.2"}),
}


@pytest.fixture(params=["socket", "tcp"])
def http(request: pytest.FixtureRequest, proxy: RunningProxy) -> httpx.AsyncClient:
    return proxy.over_socket() if request.param == "socket" else proxy.over_tcp()


@pytest.mark.parametrize("call", CALLS)
async def test_every_api_gets_its_context(proxy: RunningProxy, http: httpx.AsyncClient, call: str) -> None:
    path, headers, body = CALLS[call]
    async with http:
        reply = await http.post(path, headers=headers, json=body)
    assert reply.status_code == 200, reply.text
    sent = json.dumps(proxy.last_body)
    assert (HEADING in sent, "Rosa has the key" in sent) == (True, True)
    assert reply.headers["x-agentctx-injection"]
    for name, value in headers.items():
        assert proxy.last.header(name) == value
    assert not any(name.startswith("x-agentctx") for name, _ in proxy.last.headers)


async def test_with_nothing_in_memory_not_a_byte_changes(tmp_path: Path) -> None:
    async with running_proxy(tmp_path, saved="") as proxy, proxy.over_socket() as http:
        odd = b'{ "model":"gpt-5.6",\n"n": 1.10, "messages":[{"role":"user","content":"\\u0068i there"}] }'
        await http.post(OPENAI, headers={**KEY, "content-type": "application/json"}, content=odd)
        assert proxy.last.body == odd


@pytest.mark.parametrize(
    "content", [b"not json", b"[]", b"{}", b'{"messages": 5}', b'{"messages": [{"role": "user"}]}', b""]
)
async def test_an_unreadable_body_is_forwarded_unchanged(proxy: RunningProxy, content: bytes) -> None:
    async with proxy.over_socket() as http:
        await http.post(OPENAI, headers=KEY, content=content)
    assert proxy.last.body == content


async def test_a_call_can_opt_out(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        await http.post(OPENAI, headers={**KEY, "X-Agentctx-Inject": "off"}, json=asked())
    assert HEADING not in proxy.last.body.decode()


async def test_with_rag_off_nothing_is_touched(tmp_path: Path) -> None:
    off = {"provider": "fake", "rag": {"enabled": False}}
    async with running_proxy(tmp_path, embedding=off) as proxy, proxy.over_socket() as http:
        reply = await http.post(OPENAI, headers=KEY, json=asked())
        assert HEADING not in proxy.last.body.decode()
        assert "x-agentctx-injection" not in reply.headers


async def test_other_paths_pass_verbatim(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        reply = await http.get("/openai/v1/models?after=a%2Fb&limit=2", headers=KEY)
    assert reply.json()["object"] == "list"
    assert (proxy.last.method, proxy.last.path, proxy.last.query) == (
        "GET",
        "/openai/v1/models",
        "after=a%2Fb&limit=2",
    )


async def test_a_path_cannot_leave_the_vendors_address(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        request = http.build_request("GET", "/openai/v1/models", headers=KEY)
        request.url = request.url.copy_with(raw_path=b"/proxy/openai/v1/%2e%2e/secret")
        reply = await http.send(request)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_input")
    assert not proxy.vendor.requests


async def test_an_unknown_vendor_is_not_found(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        reply = await http.post("/evil.example/v1/chat/completions", json=asked())
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
    assert "/proxy/openai" in reply.json()["error"]["hint"]


@pytest.mark.parametrize(
    "fault",
    [
        HttpFault.with_status(401),
        HttpFault.with_status(429, hint="seconds", after_s=7),
        HttpFault.with_status(500),
        HttpFault.with_status(529),
    ],
    ids=lambda fault: str(fault.status),
)
async def test_the_vendors_errors_arrive_as_sent(proxy: RunningProxy, fault: HttpFault) -> None:
    async with proxy.over_socket() as http, httpx.AsyncClient(trust_env=False) as direct:
        proxy.vendor.script(fault)
        through = await http.post(OPENAI, headers=KEY, json=asked())
        proxy.vendor.script(fault)
        straight = await direct.post(proxy.vendor.url + OPENAI, headers=KEY, json=asked())
    assert (through.status_code, through.content) == (straight.status_code, straight.content)
    assert through.headers.get("retry-after") == straight.headers.get("retry-after")
    assert through.headers["x-request-id"]


async def test_redirects_are_forwarded_and_not_followed(proxy: RunningProxy) -> None:
    proxy.vendor.script(HttpFault(kind="redirect", status=307))
    async with proxy.over_socket() as http:
        reply = await http.post(OPENAI, headers=KEY, json=asked())
    assert reply.status_code == 307
    assert [seen.provider for seen in proxy.vendor.requests] == ["openai"]


async def test_a_stream_is_forwarded_incrementally(proxy: RunningProxy, http: httpx.AsyncClient) -> None:
    proxy.vendor.script(HttpFault(kind="slow_pieces"))
    async with http, http.stream("POST", OPENAI, headers=KEY, json=asked(stream=True)) as reply:
        pieces = reply.aiter_lines()
        for _ in range(4):
            await proxy.vendor.wait_until_held()
            proxy.vendor.release()
            while not (await anext(pieces)).startswith("data: {"):
                pass
        assert reply.status_code == 200


async def test_a_stream_arrives_byte_for_byte(proxy: RunningProxy) -> None:
    """The same request straight to the vendor gives the same bytes."""
    async with proxy.over_socket() as http, httpx.AsyncClient(trust_env=False) as direct:
        body = asked(stream=True)
        through = await http.post(OPENAI, headers=KEY, json=body)
        straight = await direct.post(
            proxy.vendor.url + OPENAI,
            headers={**KEY, "content-type": "application/json"},
            content=proxy.last.body,
        )
    assert _without_time(through.text) == _without_time(straight.text)
    assert through.text.endswith("data: [DONE]\n\n")


async def test_a_client_that_leaves_ends_the_vendors_work(
    proxy: RunningProxy, http: httpx.AsyncClient
) -> None:
    proxy.vendor.script(HttpFault(kind="slow_pieces"))
    async with http:
        async with http.stream("POST", OPENAI, headers=KEY, json=asked(stream=True)):
            await proxy.vendor.wait_until_held()
        await asyncio.wait_for(proxy.vendor.wait_until_aborted(), 10)
    assert proxy.last.aborted


async def test_a_reply_cut_off_by_the_vendor_is_cut_off_for_the_client(proxy: RunningProxy) -> None:
    proxy.vendor.script(HttpFault(kind="reset"))
    async with proxy.over_socket() as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.post(OPENAI, headers=KEY, json=asked())


async def test_an_unreachable_vendor_is_reported(tmp_path: Path) -> None:
    nowhere = {"openai_url": "http://127.0.0.1:9", "gemini_url": ""}
    async with running_proxy(tmp_path, proxy=nowhere) as proxy, proxy.over_socket() as http:
        reply = await http.post(OPENAI, headers=KEY, json=asked())
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_failed")
        reply = await http.get("/gemini/v1beta/models")
        assert (reply.status_code, "proxy.gemini_url" in reply.json()["error"]["hint"]) == (400, True)


async def test_the_operators_key_is_used_where_a_call_brings_none(tmp_path: Path) -> None:
    async with (
        running_proxy(tmp_path, proxy={"openai_key": "operators"}) as proxy,
        proxy.over_socket() as http,
    ):
        await http.post(OPENAI, json=asked())
        assert proxy.last.header("authorization") == "Bearer operators"
        await http.post(OPENAI, headers=KEY, json=asked())
        assert proxy.last.header("authorization") == KEY["authorization"]


async def test_a_picture_fits_through_and_a_save_does_not(proxy: RunningProxy) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 3_000_000}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}, picture]}],
    }
    async with proxy.over_socket() as http:
        reply = await http.post(OPENAI, headers=KEY, json=body)
        assert reply.status_code == 200, reply.text
        assert HEADING in proxy.last.body.decode()
        http.base_url = "http://agentctx"
        refused = await http.post("/v1/search", json={"query": "A" * 3_000_000})
    assert refused.status_code == 413


async def test_a_picture_fits_through_the_port_wherever_the_token_is(proxy: RunningProxy) -> None:
    body = asked()
    body["messages"][0]["content"] += "A" * 3_000_000
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False) as http:
        reply = await http.post(f"/t/{proxy.token}/proxy{OPENAI}", headers=KEY, json=body)
    assert reply.status_code == 200, reply.text


async def test_a_vendors_own_idempotency_keys_are_not_checked(proxy: RunningProxy) -> None:
    twice = [("authorization", "Bearer k"), ("idempotency-key", "a"), ("idempotency-key", "b")]
    async with proxy.over_socket() as http:
        assert (await http.post(OPENAI, headers=twice, json=asked())).status_code == 200
        namespaces = [*twice, ("X-Agentctx-Namespace", "default"), ("X-Agentctx-Namespace", "team")]
        refused = await http.post(OPENAI, headers=namespaces, json=asked())
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")


async def test_a_large_body_gets_its_context_and_is_read_in_a_thread(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    class NotedBody(JsonBody):
        def read(self) -> InjectionRequest:
            threads.append(threading.current_thread().name)
            return super().read()

    monkeypatch.setattr("agentctx.llm.proxy.app.JsonBody", NotedBody)
    turns = [{"role": role, "content": "x" * 40_000} for role in ("user", "assistant")] * 10
    async with proxy.over_socket() as http:
        for before in (turns, []):
            body = {"model": "m", "messages": [*before, *asked()["messages"]]}
            reply = await http.post(OPENAI, headers=KEY, json=body)
            assert "x-agentctx-left-out" not in reply.headers
            assert HEADING in proxy.last.body.decode()
            assert proxy.last_body["messages"][: len(before)] == before
    own = threading.current_thread().name
    assert [name == own for name in threads] == [False, True]


async def test_a_body_that_is_too_large_goes_out_unchanged_and_the_reply_says_so(proxy: RunningProxy) -> None:
    body = json.dumps({**asked(), "metadata": "x" * MAX_BYTES}).encode()
    async with proxy.over_socket() as http:
        reply = await http.post(OPENAI, headers=KEY, content=body)
    assert (reply.status_code, reply.headers["x-agentctx-left-out"]) == (200, "too large")
    assert proxy.last.body == body


async def test_a_conversation_longer_than_is_compared_gets_its_context(tmp_path: Path) -> None:
    turns = [{"role": role, "content": "x" * 100} for role in ("user", "assistant")] * 10
    body = {"model": "m", "messages": [*turns, *asked()["messages"]]}
    async with running_proxy(tmp_path, limits={"max_present_chars": 500}) as proxy:
        async with proxy.over_socket() as http:
            await http.post(OPENAI, headers=KEY, json=body)
        assert HEADING in proxy.last.body.decode()


async def test_the_tail_is_replayed_in_the_next_turn(proxy: RunningProxy) -> None:
    async with proxy.over_socket() as http:
        await http.post(OPENAI, headers=KEY, json=asked())
        first = proxy.last_body["messages"][0]
        turns = [*asked()["messages"], {"role": "assistant", "content": "Tuesday."}]
        body = {"model": "gpt-5.6", "messages": [*turns, {"role": "user", "content": "Thanks. And the key?"}]}
        await http.post(OPENAI, headers=KEY, json=body)
    assert proxy.last_body["messages"][0] == first


async def test_a_tool_round_after_a_restart_has_the_bytes_it_had_before(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    question = asked()["messages"]
    tool_round = [
        *question,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": MEMORY},
    ]
    seen = []
    for saved, messages in ((MEMORY, [question, tool_round]), ("", [tool_round])):
        async with running_proxy(tmp_path, saved=saved) as proxy, proxy.over_socket() as http:
            for each in messages:
                await http.post(OPENAI, headers=KEY, json={**asked(), "messages": each})
                seen.append(proxy.last_body["messages"])
    assert HEADING in json.dumps(seen[0])
    assert seen[1] == seen[2]
    assert seen[2][0] == seen[0][0]


async def test_namespaces_and_sessions_come_from_headers(proxy: RunningProxy) -> None:
    await proxy.memory.save_knowledge(
        "deploy", "The deploy window is secret.", namespace="team", wait="embedded"
    )
    async with proxy.over_socket() as http:
        await http.post(OPENAI, headers={**KEY, "X-Agentctx-Namespace": "team"}, json=asked())
    sent = proxy.last.body.decode()
    assert ("is secret" in sent, "Rosa" in sent) == (True, False)
    async with proxy.over_socket() as http:
        await http.post(OPENAI, headers={**KEY, "X-Agentctx-Namespace": "team, default"}, json=asked())
    sent = proxy.last.body.decode()
    assert ("is secret" in sent, "Rosa" in sent) == (True, True)


async def test_a_daemon_without_the_token_answers_no_vendor(proxy: RunningProxy) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False) as http:
        reply = await http.post(f"/proxy{OPENAI}", headers=KEY, json=asked())
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "access_denied")
        reply = await http.post(f"/t/{proxy.token}/v1/search", json={"query": "deploy"})
        assert reply.status_code == 404
        reply = await http.post(f"/t/{proxy.token}/proxy{OPENAI}", headers=KEY, json=asked())
        assert reply.status_code == 200
    assert proxy.token not in str(proxy.last.headers)


def _without_time(stream: str) -> list[Any]:
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return [{name: value for name, value in event.items() if name != "created"} for event in events]
