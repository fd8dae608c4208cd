"""Chats over the wire: recordings, faults, and streams that are delayed or abandoned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall
from agentctx_testing.fake_provider.faults import HttpFault, Kind
from agentctx_testing.fake_provider.serving import FakeProviderServer

MESSAGES = [{"role": "user", "content": "hello there"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hello there"}]}]
VERSION = {"anthropic-version": "2023-06-01"}

STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/openai/v1/chat/completions", {"model": "m", "messages": MESSAGES, "stream": True}),
    "responses": ("/openai/v1/responses", {"model": "m", "input": "hello there", "stream": True}),
    "anthropic": (
        "/anthropic/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": MESSAGES, "stream": True},
    ),
    "google": ("/google/v1beta/models/m:streamGenerateContent?alt=sse", {"contents": CONTENTS}),
    "google array": ("/google/v1/models/m:streamGenerateContent", {"contents": CONTENTS}),
    "ollama": ("/ollama/api/chat", {"model": "m", "messages": MESSAGES}),
    "ollama generate": ("/ollama/api/generate", {"model": "m", "prompt": "hello there"}),
}
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", {"model": "m", "messages": MESSAGES}),
    "responses": ("/v1/responses", {"model": "m", "input": "hello there"}),
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": MESSAGES}),
    "google": ("/v1/models/m:generateContent", {"contents": CONTENTS}),
    "ollama": ("/api/chat", {"model": "m", "messages": MESSAGES, "stream": False}),
    "ollama generate": ("/api/generate", {"model": "m", "prompt": "hello there", "stream": False}),
}


async def ask(http: httpx.AsyncClient, path: str, body: Mapping[str, Any], **headers: str) -> httpx.Response:
    return await http.post(path, json=body, headers={**VERSION, **headers})


async def test_the_bytes_and_headers_that_arrived_are_recorded(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    body = b'{ "model":"m",\n "messages":[{"role":"user","content":"\\u00e9"}], "unknown": 1.50 }'
    await http.post(
        "/v1/chat/completions?a=b", content=body, headers={"X-Own": "kept", "OpenAI-Project": "p"}
    )
    seen = server.requests[0]
    assert (seen.method, seen.path, seen.query, seen.body) == ("POST", "/v1/chat/completions", "a=b", body)
    assert (seen.header("x-own"), seen.header("openai-project")) == ("kept", "p")
    assert (seen.header("authorization"), seen.has_key) == ("Bearer k", True)
    assert "Bearer k" not in repr(seen)


async def test_keys_are_not_listed(http: httpx.AsyncClient) -> None:
    await ask(http, "/google/v1/models/m:generateContent?alt=json&key=s3cret", WHOLE["google"][1])
    await ask(http, *WHOLE["anthropic"], authorization="Bearer s3cret")
    listed = await http.get("/__requests")
    assert "s3cret" not in listed.text
    assert [seen["query"] for seen in listed.json()["requests"]] == ["alt=json&key=…", ""]


@pytest.mark.parametrize("name", list(WHOLE))
async def test_equal_requests_have_equal_replies(http: httpx.AsyncClient, name: str) -> None:
    first, second = [await ask(http, *WHOLE[name]) for _ in range(2)]
    assert first.status_code == 200
    assert first.content == second.content
    assert "You said: hello there" in first.text


@pytest.mark.parametrize("name", list(STREAMS))
async def test_a_stream_has_the_same_content(http: httpx.AsyncClient, name: str) -> None:
    reply = await ask(http, *STREAMS[name])
    kind = reply.headers["content-type"].partition(";")[0]
    expected = {"google array": "application/json", "ollama": "application/x-ndjson"}
    assert kind == expected.get(name.removesuffix(" generate"), "text/event-stream")
    objects = _objects(reply.text, kind)
    assert len(objects) >= 4
    assert "".join(filter(None, map(_said, objects))) == "You said: hello there"


def _objects(text: str, kind: str) -> list[Any]:
    if kind == "application/json":
        found: list[Any] = json.loads(text)
        return found
    lines = text.splitlines()
    if kind == "text/event-stream":
        lines = [line[6:] for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    return [json.loads(line) for line in lines]


def _said(piece: dict[str, Any]) -> str | None:
    match piece:
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"type": "response.output_text.delta", "delta": text} | {"delta": {"text": text}}:
            return str(text)
        case {"candidates": [{"content": {"parts": [{"text": text}]}}]}:
            return str(text)
        case {"message": {"content": str(text)}} | {"response": str(text)}:
            return text
    return None


@pytest.mark.parametrize("name", list(STREAMS))
async def test_each_piece_waits_for_a_release_of_its_own(
    server: FakeProviderServer, http: httpx.AsyncClient, name: str
) -> None:
    server.script(HttpFault(kind="slow_pieces"))
    path, body = STREAMS[name]
    async with http.stream("POST", path, json=body, headers=VERSION) as reply:
        pieces = reply.aiter_raw()
        received = b""
        for _ in range(3):
            await server.wait_until_held()
            assert server.release() == 1
            received += await anext(pieces)
        await server.wait_until_held()
        assert received
        assert b"there" not in received
    await server.wait_until_aborted()
    assert [seen.aborted for seen in server.requests] == [True]


async def test_a_stream_that_is_read_to_its_end_is_not_aborted(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault(kind="slow_body", request=2))
    await ask(http, *STREAMS["openai"])
    asking = asyncio.create_task(ask(http, *STREAMS["openai"]))
    await server.wait_until_held()
    server.release()
    assert (await asking).text.endswith("data: [DONE]\n\n")
    assert not any(seen.aborted for seen in server.requests)


@pytest.mark.parametrize("kind", ["slow_headers", "slow_body", "slow_pieces", "endless_body"])
async def test_a_client_that_leaves_is_noticed(
    server: FakeProviderServer, http: httpx.AsyncClient, kind: Kind
) -> None:
    server.script(HttpFault(kind=kind))
    asking = asyncio.create_task(ask(http, *STREAMS["anthropic"]))
    if kind == "endless_body":
        async with http.stream("POST", STREAMS["openai"][0], json=STREAMS["openai"][1]) as reply:
            await anext(reply.aiter_raw())
    else:
        await server.wait_until_held()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (await http.get("/__aborted")).status_code == 204
    assert all(seen.aborted for seen in server.requests)


@pytest.mark.parametrize("name", [*WHOLE, *(f"{name} stream" for name in STREAMS)])
async def test_every_fault_affects_chats_too(
    server: FakeProviderServer, http: httpx.AsyncClient, name: str
) -> None:
    table, key = (STREAMS, name.removesuffix(" stream")) if name.endswith(" stream") else (WHOLE, name)
    kinds: list[HttpFault] = [
        HttpFault.with_status(401, request=1),
        HttpFault.with_status(429, hint="seconds", after_s=7, request=2),
        HttpFault.with_status(529, request=3),
        HttpFault(kind="redirect", request=4),
        HttpFault(kind="wrong_content_type", request=5),
        HttpFault(kind="truncated_json", request=6),
        HttpFault(kind="reset", request=7),
        HttpFault(kind="refuse", request=8),
    ]
    server.script(*kinds)
    replies = [await ask(http, *table[key]) for _ in range(6)]
    assert [reply.status_code for reply in replies] == [401, 429, 529, 307, 200, 200]
    assert replies[1].headers["retry-after"] == "7"
    assert all("error" in reply.json() for reply in replies[:3])
    assert replies[4].text.startswith("<!doctype html>")
    for _ in range(2):
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await ask(http, *table[key])
    whole = await ask(http, *table[key])
    assert whole.content.startswith(replies[5].content)
    assert len(replies[5].content) == len(whole.content) // 2


async def test_a_failing_stream_sends_an_error_event(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.script(HttpFault(kind="stream_error", status=529, message="too much"))
    ended = {
        "openai": 'data: {"error":{"message":"too much","type":"server_error","param":null,"code":null}}\n\n',
        "responses": 'event: error\ndata: {"type":"error","code":null,"message":"too much","param":null,'
        '"sequence_number":0}\n\n',
        "anthropic": 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too '
        'much"},"request_id":"req_000000000000000000000000"}\n\n',
        "google": 'data: {"error":{"code":529,"message":"too much","status":"UNKNOWN"}}\n\n',
        "ollama": '{"error":"too much"}\n',
    }
    for name, end in ended.items():
        reply = await ask(http, *STREAMS[name])
        assert reply.status_code == 200
        assert reply.text.endswith(end)
        assert "You" in reply.text


async def test_an_unknown_path_is_recorded_and_answered_with_404(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    for path in ("/openai/v1/files", "/anthropic/v1/files", "/google/v1/files", "/v1/files"):
        reply = await http.put(path, content=b"\x00raw")
        assert (reply.status_code, "error" in reply.json()) == (404, True)
    assert [seen.provider for seen in server.requests] == ["openai", "anthropic", "google", "openai"]
    assert {(seen.method, seen.body) for seen in server.requests} == {("PUT", b"\x00raw")}
    assert (await http.get("/v1/models")).json()["object"] == "list"
    assert (await http.get("/google/v1beta/models")).json()["models"]
    assert (await http.get("/ollama/api/tags")).json()["models"]


async def test_another_process_scripts_answers(http: httpx.AsyncClient) -> None:
    answers = [{"text": "later", "contains": "then"}, {"calls": [{"name": "f", "arguments": {"a": 1}}]}]
    assert (await http.post("/__script", json={"answers": answers})).status_code == 204
    message = (await ask(http, *WHOLE["ollama"])).json()["message"]
    assert message["tool_calls"][0]["function"] == {"index": 0, "name": "f", "arguments": {"a": 1}}
    later = {"model": "m", "messages": [{"role": "user", "content": "and then"}]}
    assert (await ask(http, "/v1/chat/completions", later)).json()["choices"][0]["message"][
        "content"
    ] == "later"
    assert (await http.post("/__script", json={"answers": [{"said": "x"}]})).status_code == 400


async def test_ollama_streams_by_default_and_sends_calls_whole(
    server: FakeProviderServer, http: httpx.AsyncClient
) -> None:
    server.answer(FakeAnswer(text="Look.", calls=(ToolCall(name="f"), ToolCall(name="g"))))
    lines = [json.loads(line) for line in (await ask(http, *STREAMS["ollama"])).text.splitlines()]
    assert [line["done"] for line in lines] == [False, False, True]
    assert [call["function"]["name"] for call in lines[1]["message"]["tool_calls"]] == ["f", "g"]
    assert lines[-1]["prompt_eval_count"] == 4
    assert lines[0]["created_at"] == "1970-01-01T00:00:00.000Z"


ANTHROPIC_TURNS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("claude-opus-4-8", [{"role": "system", "content": "s"}], "must follow a user message"),
    ("claude-sonnet-4-5", [*MESSAGES, {"role": "system", "content": "s"}], "not supported on this model"),
    ("claude-opus-4-8", [*MESSAGES, {"role": "system", "content": "s"}, *MESSAGES], "precede an assistant"),
    ("claude-opus-4-8", [{"role": "user", "content": [{"type": "text", "text": ""}]}], "must be non-empty"),
    ("claude-opus-4-8", [], "at least one message"),
    ("claude-opus-4-8", [{"role": "robot", "content": "x"}], "role"),
]


@pytest.mark.parametrize(("model", "messages", "complaint"), ANTHROPIC_TURNS)
async def test_anthropic_refuses_invalid_requests(
    http: httpx.AsyncClient, model: str, messages: list[dict[str, Any]], complaint: str
) -> None:
    reply = await ask(http, "/v1/messages", {"model": model, "max_tokens": 9, "messages": messages})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert complaint in reply.json()["error"]["message"]
    assert reply.headers["request-id"].startswith("req_")


async def test_a_system_turn_after_the_users_is_taken_by_models_that_know_it(http: httpx.AsyncClient) -> None:
    messages = [*MESSAGES, {"role": "system", "content": "s"}]
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": messages}
    assert (await ask(http, "/v1/messages", body)).status_code == 200


async def test_anthropic_wants_its_version_and_a_limit(http: httpx.AsyncClient) -> None:
    path, body = WHOLE["anthropic"]
    assert "anthropic-version" in (await http.post(path, json=body)).json()["error"]["message"]
    assert "max_tokens" in (await ask(http, path, {**body, "max_tokens": None})).json()["error"]["message"]


async def test_a_limit_of_zero_tokens_gives_an_empty_reply(http: httpx.AsyncClient) -> None:
    reply = (await ask(http, "/v1/messages", {**WHOLE["anthropic"][1], "max_tokens": 0})).json()
    assert (reply["content"], reply["stop_reason"]) == ([], "max_tokens")


async def test_a_longer_prompt_has_more_tokens(http: httpx.AsyncClient) -> None:
    body = {**WHOLE["anthropic"][1], "system": "x" * 8_000}
    shorter, longer = [
        (await ask(http, "/v1/messages", each)).json()["usage"]["input_tokens"]
        for each in (WHOLE["anthropic"][1], body)
    ]
    assert longer - shorter == 2_000


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", {"model": "m", "messages": []}, "messages"),
    ("/v1/chat/completions", {"model": "m", "messages": [{"role": "robot"}]}, "robot"),
    (
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
        "preceding message",
    ),
    ("/v1/responses", {"model": "m"}, "input"),
    ("/v1/models/m:generateContent", {"contents": []}, "contents"),
    ("/v1/models/m:generateContent", {"contents": [{"role": "system", "parts": [{"text": "a"}]}]}, "role"),
    ("/v1/models/m:generateContent", {"contents": [{"role": "user", "parts": []}]}, "parts"),
    (
        "/v1/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
        "function response parts",
    ),
    ("/api/chat", {"model": "m", "messages": [{"role": "user", "content": []}]}, "unmarshal"),
    ("/api/chat", {"model": "m", "messages": [{"role": "robot"}]}, "invalid role"),
]


@pytest.mark.parametrize(("path", "body", "complaint"), REFUSED)
async def test_the_other_dialects_refuse_invalid_requests(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], complaint: str
) -> None:
    reply = await ask(http, path, body)
    assert reply.status_code == 400
    assert complaint in reply.text
