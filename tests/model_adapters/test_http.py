"""Every API against the fake provider server, over real HTTP, and the protection of keys."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from agentctx import ContextAwareModelAdapter
from agentctx.errors import InvalidInput, ModelFailed
from agentctx.fake_provider.answers import FakeAnswer, ToolCall
from agentctx.fake_provider.faults import HttpFault
from agentctx.fake_provider.serving import FakeProviderServer, running
from agentctx.model_adapters.http import (
    AnthropicAdapter,
    GeminiAdapter,
    HttpModelAdapter,
    OllamaAdapter,
    OpenAIChatAdapter,
    OpenAIResponsesAdapter,
    refusal,
    stream_failure,
)
from tests.model_adapters.sources import Answering

KEY = "sk-very-secret"
QUESTION = "hello there"
ECHO = "You said: hello there"
USER = [{"role": "user", "content": QUESTION}]


class Case:
    """One API: its adapter, a request, and the places of the text in its reply and its stream."""

    def __init__(self, kind: type[HttpModelAdapter], provider: str, request: dict[str, Any]) -> None:
        self.kind = kind
        self.provider = provider
        self.request = request

    def adapter(self, server: FakeProviderServer, **options: Any) -> HttpModelAdapter:
        return self.kind(KEY, base_url=server.base_url(self.provider), **options)

    def text(self, reply: Any) -> str:
        return str(_text(self.kind, reply))

    def piece(self, event: Any) -> str:
        return str(_piece(self.kind, event))


def _text(kind: type[HttpModelAdapter], reply: Any) -> Any:
    if kind is OpenAIChatAdapter:
        return reply["choices"][0]["message"]["content"]
    if kind is OpenAIResponsesAdapter:
        return reply["output"][-1]["content"][0]["text"]
    if kind is AnthropicAdapter:
        return reply["content"][0]["text"]
    if kind is GeminiAdapter:
        return reply["candidates"][0]["content"]["parts"][0]["text"]
    return reply["message"]["content"]


def _piece(kind: type[HttpModelAdapter], event: Any) -> Any:
    if kind is OpenAIChatAdapter:
        return (event["choices"][0]["delta"].get("content") or "") if event["choices"] else ""
    if kind is OpenAIResponsesAdapter:
        return event["delta"] if event["type"] == "response.output_text.delta" else ""
    if kind is AnthropicAdapter:
        return event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""
    if kind is GeminiAdapter:
        parts = event["candidates"][0].get("content", {}).get("parts", [])
        return "".join(part.get("text", "") for part in parts)
    return event["message"]["content"]


CASES = {
    "openai_chat": Case(OpenAIChatAdapter, "openai", {"model": "gpt-5.4-mini", "messages": USER}),
    "openai_responses": Case(OpenAIResponsesAdapter, "openai", {"model": "gpt-5.4-mini", "input": QUESTION}),
    "anthropic_messages": Case(
        AnthropicAdapter, "anthropic", {"model": "claude-opus-4-8", "max_tokens": 99, "messages": USER}
    ),
    "gemini": Case(
        GeminiAdapter,
        "google",
        {"model": "gemini-2.5-flash", "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
    ),
    "ollama": Case(OllamaAdapter, "ollama", {"model": "llama3.2", "messages": USER}),
}


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
async def server() -> AsyncIterator[FakeProviderServer]:
    async with running(key=KEY) as started:
        yield started


async def test_a_reply_has_the_format_of_the_api(case: Case, server: FakeProviderServer) -> None:
    async with case.adapter(server) as model:
        assert case.text(await model.complete(case.request)) == ECHO


async def test_a_stream_has_the_format_of_the_api(case: Case, server: FakeProviderServer) -> None:
    async with case.adapter(server) as model:
        events = [event async for event in model.stream(case.request)]
    assert "".join(map(case.piece, events)) == ECHO
    assert len(events) > 2


async def test_with_context_the_model_sees_the_block_where_it_belongs(
    case: Case, server: FakeProviderServer
) -> None:
    async with case.adapter(server) as model:
        adapter = ContextAwareModelAdapter(model, Answering())
        assert case.text(await adapter.complete(case.request)) == ECHO
        events = [event async for event in adapter.stream(case.request)]
        assert "".join(map(case.piece, events)) == ECHO
        tail = ContextAwareModelAdapter(model, Answering(), position="tail")
        assert case.text(await tail.complete(case.request)) != ""
    for seen in server.requests:
        assert str(seen.payload).count(f"block for {QUESTION}") == 1


async def test_tool_calls_of_a_stream_pass_through(case: Case, server: FakeProviderServer) -> None:
    server.answer(FakeAnswer(calls=(ToolCall(name="weather"), ToolCall(name="tides"))))
    async with case.adapter(server) as model:
        events = str(
            [event async for event in ContextAwareModelAdapter(model, Answering()).stream(case.request)]
        )
    assert "weather" in events
    assert "tides" in events


async def test_a_refusal_has_status_pause_and_reply(case: Case, server: FakeProviderServer) -> None:
    server.script(HttpFault.with_status(429, hint="seconds", after_s=7))
    async with case.adapter(server) as model:
        for call in (model.complete(case.request), _drained(model, case.request)):
            with pytest.raises(ModelFailed) as raised:
                await call
            assert (raised.value.status, raised.value.retry_after_s) == (429, 7)
            assert raised.value.reply is not None
            assert raised.value.hint


async def test_a_redirect_is_never_followed_with_the_key(case: Case, server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="redirect"))
    async with (
        httpx.AsyncClient(follow_redirects=True) as client,
        case.adapter(server, client=client) as model,
    ):
        for call in (model.complete(case.request), _drained(model, case.request)):
            with pytest.raises(ModelFailed, match="a redirect"):
                await call
    assert "elsewhere" not in {seen.provider for seen in server.requests}


@pytest.mark.parametrize("kind", ["refuse", "reset", "truncated_json", "wrong_content_type"])
async def test_a_broken_reply_is_an_error_of_ours(case: Case, server: FakeProviderServer, kind: Any) -> None:
    server.script(HttpFault(kind=kind))
    async with case.adapter(server) as model:
        with pytest.raises(ModelFailed) as raised:
            await model.complete(case.request)
        assert raised.value.status is None


async def test_an_error_within_a_stream_ends_it(case: Case, server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="stream_error"))
    pieces: list[Any] = []
    async with case.adapter(server) as model:
        with pytest.raises(ModelFailed):
            await _collected(model, case.request, pieces)
    if case.kind is not OpenAIResponsesAdapter:
        assert pieces


async def test_chunks_arrive_one_by_one_and_leaving_ends_the_call(
    case: Case, server: FakeProviderServer
) -> None:
    server.script(HttpFault(kind="slow_pieces"))
    async with case.adapter(server) as model:
        adapter = ContextAwareModelAdapter(model, Answering())
        async with aclosing(adapter.stream(case.request)) as events:  # type: ignore[type-var] # a generator
            first = asyncio.ensure_future(anext(events))
            await server.wait_until_held()
            assert not first.done()
            server.release()
            await first
        await server.wait_until_aborted()


async def test_a_caller_that_gives_up_ends_the_call(case: Case, server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="slow_headers"))
    async with case.adapter(server) as model:
        calling = asyncio.create_task(model.complete(case.request))
        await server.wait_until_held()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await server.wait_until_aborted()


async def test_silence_has_an_end(case: Case, server: FakeProviderServer) -> None:
    server.script(HttpFault(kind="slow_headers"))
    async with case.adapter(server, timeout_s=0.05) as model:
        with pytest.raises(ModelFailed, match=r"0\.05 s"):
            await model.complete(case.request)


async def test_no_error_contains_the_key(case: Case, server: FakeProviderServer) -> None:
    async with case.adapter(server) as model:
        for fault in (
            HttpFault.with_status(401, message=f"wrong key {KEY}"),
            HttpFault(kind="refuse"),
            HttpFault(kind="reset"),
        ):
            server.script(fault)
            for call in (model.complete(case.request), _drained(model, case.request)):
                with pytest.raises(ModelFailed) as raised:
                    await call
                assert KEY not in "".join(traceback.format_exception(raised.value))
                assert raised.value.__context__ is None, "an exception of httpx leads to the key"
        assert KEY not in repr(model)


async def test_a_key_is_taken_from_the_environment_or_a_secret(
    server: FakeProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.base_url("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for model in (OpenAIChatAdapter(base_url=url), OpenAIChatAdapter(SecretStr(KEY), base_url=url + "/")):
        async with model:
            assert await model.complete(CASES["openai_chat"].request)


async def test_headers_of_ones_own_are_sent(server: FakeProviderServer) -> None:
    case = CASES["anthropic_messages"]
    async with case.adapter(server, headers={"anthropic-beta": "x"}) as model:
        await model.complete(case.request)
    (seen,) = server.requests
    assert (seen.header("anthropic-beta"), seen.header("anthropic-version")) == ("x", "2023-06-01")


async def test_it_can_be_closed_twice_and_leaves_a_given_client_open(server: FakeProviderServer) -> None:
    case = CASES["openai_chat"]
    async with httpx.AsyncClient() as client:
        model = case.adapter(server, client=client)
        await model.aclose()
        await model.aclose()
        assert await model.complete(case.request)


def test_an_invalid_key_or_address_is_refused() -> None:
    for key in ("k\n", " k", "clé"):
        with pytest.raises(InvalidInput) as raised:
            OpenAIChatAdapter(key)
        assert key.strip() not in str(raised.value.message).split()
    with pytest.raises(InvalidInput, match="http"):
        OpenAIChatAdapter("k", base_url="api.openai.com/v1")


async def test_gemini_needs_a_model_that_stays_within_its_path(server: FakeProviderServer) -> None:
    async with CASES["gemini"].adapter(server) as model:
        for name in (None, "", "..", 7):
            with pytest.raises(InvalidInput, match="no model"):
                await model.complete({"model": name, "contents": []})
        with pytest.raises(ModelFailed):
            await model.complete({"model": "../../elsewhere", "contents": []})
    assert {seen.provider for seen in server.requests} <= {"google"}


async def _drained(model: HttpModelAdapter, request: Any) -> None:
    await _collected(model, request, [])


async def _collected(model: HttpModelAdapter, request: Any, events: list[Any]) -> None:
    """Collects the events of a stream in a list that survives a failure of the stream."""
    async for event in model.stream(request):
        events.append(event)  # noqa: PERF401 - see above


KEY_OF_REFUSAL = "sk-secret"


def test_a_refusal_has_status_codes_pause_and_reply_and_quotes_nothing() -> None:
    reply = {
        "error": {
            "type": "rate_limit_error",
            "message": f"You said hello with {KEY_OF_REFUSAL}",
            "code": KEY_OF_REFUSAL,
        }
    }
    error = refusal(429, {"retry-after": "7"}, json.dumps(reply).encode(), now=0, key=KEY_OF_REFUSAL)
    assert (error.status, error.retry_after_s, error.code) == (429, 7, "model_failed")
    assert error.message == "The API answered 429 (rate_limit_error)."
    assert "retry_after_s" in error.hint
    assert error.reply == reply


def test_googles_code_and_pause_are_read() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]
    body = json.dumps({"error": {"code": 503, "status": "UNAVAILABLE", "details": details}}).encode()
    error = refusal(503, {}, body, now=0, key="")
    assert (error.message, error.retry_after_s) == ("The API answered 503 (UNAVAILABLE).", 3)


def test_a_redirect_is_reported_and_not_followed() -> None:
    error = refusal(307, {"location": "https://elsewhere"}, b"", now=0, key=KEY_OF_REFUSAL)
    assert "a redirect" in error.message
    assert "elsewhere" not in error.message


def test_any_body_is_taken() -> None:
    for body in (b"", b"<html>", b"[]", b'"x"', b'{"error": "model not found"}', b'{"error": {"code": [1]}}'):
        assert refusal(404, {}, body, now=0, key="").message == "The API answered 404."


def test_errors_within_a_stream_are_known() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failures: list[dict[str, Any]] = [overloaded, {"error": {"code": 500}}, {"error": "out of memory"}]
    for event in failures:
        assert stream_failure(event, key="") is not None
    pieces: list[dict[str, Any]] = [
        {"type": "ping"},
        {"error": None, "choices": []},
        {"response": {"error": {"code": "x"}}},
    ]
    for event in pieces:
        assert stream_failure(event, key="") is None
