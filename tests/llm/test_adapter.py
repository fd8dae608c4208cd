"""A model whose calls all carry context and never fail because of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from agentctx import ContextAwareModelAdapter
from agentctx.errors import DaemonUnreachable, InvalidInput
from agentctx.llm.base import FunctionModelAdapter
from agentctx.llm.context_source import ContextSource
from agentctx.llm.dialects.openai_chat import OpenAIChat
from agentctx.service.telemetry.prometheus import exposition
from agentctx.service.telemetry.recorder import Recorder
from tests.llm.sources import Answering, Failing, Silent
from tests.service.telemetry.scraped import scraped

QUESTION = [{"role": "user", "content": "how do we deploy?"}]
BLOCK = "block for"


class Model:
    """Records each request; answers with their number so far."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.closed = asyncio.Event()

    async def complete(self, request: Any, /) -> Any:
        self.requests.append(request)
        return {"id": f"r{len(self.requests)}", "object": "response"}

    async def stream(self, request: Any, /) -> AsyncIterator[Any]:
        self.requests.append(request)
        try:
            yield {"type": "response.created", "response": {"id": "r1", "object": "response"}}
            yield {"type": "response.completed"}
        finally:
            self.closed.set()


def adapter_of(
    model: Model, source: ContextSource, dialect: str = "openai_chat", **options: Any
) -> ContextAwareModelAdapter:
    return ContextAwareModelAdapter(model, source, dialect=dialect, **options)


def chat(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]}


async def test_the_block_is_in_the_system_prompt_of_the_call() -> None:
    model, source = Model(), Answering()
    reply = await adapter_of(model, source).complete({"messages": QUESTION, "temperature": 0})
    assert reply == {"id": "r1", "object": "response"}
    assert model.requests == [
        {
            "messages": [{"role": "system", "content": "block for how do we deploy?"}, *QUESTION],
            "temperature": 0,
        }
    ]


async def test_disabled_injection_leaves_requests_unchanged_and_asks_no_daemon() -> None:
    model, source = Model(), Answering()
    request = {"messages": QUESTION}
    adapter = adapter_of(model, source, enabled=False)
    await adapter.complete(request)
    _ = [event async for event in adapter.stream(request)]
    assert all(seen is request for seen in model.requests)
    assert not source.asked
    assert not adapter.outcomes


async def test_nothing_relevant_changes_no_byte() -> None:
    model = Model()
    request = {"messages": QUESTION}
    adapter = adapter_of(model, Answering(lambda _: ""))
    await adapter.complete(request)
    assert model.requests[0] is request
    assert adapter.outcomes == {"nothing_relevant": 1}


async def test_a_bare_list_of_messages_stays_one() -> None:
    model = Model()
    await adapter_of(model, Answering()).complete(QUESTION)
    assert model.requests[0][0]["role"] == "system"
    await adapter_of(model, Answering(lambda _: "")).complete(QUESTION)
    assert model.requests[1] is QUESTION


async def test_invalid_requests_pass_through() -> None:
    model = Model()
    adapter = adapter_of(model, Answering(), dialect="anthropic_messages")
    for odd in ("hi", None, QUESTION, {"messages": "hi"}):
        await adapter.complete(odd)
        assert model.requests[-1] is odd


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DaemonUnreachable("nobody is there"), "daemon_unreachable"),
        (RuntimeError("a text that is nobody's business"), "other"),
        (TimeoutError(), "deadline_exceeded"),
    ],
)
async def test_a_failing_source_fails_no_call(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    model, request = Model(), {"messages": QUESTION}
    adapter = adapter_of(model, Failing(error))
    structlog.reset_defaults()
    with caplog.at_level(logging.WARNING):
        await adapter.complete(request)
        await adapter.complete(request)
    assert [seen is request for seen in model.requests] == [True, True]
    assert adapter.outcomes == {reason: 2}
    assert len(caplog.records) == 1, "the same reason is logged once"
    assert "business" not in caplog.text
    assert capsys.readouterr().out == "", "stdout belongs to the program"


async def test_in_the_daemon_the_reason_goes_to_its_log() -> None:
    adapter = adapter_of(Model(), Failing(DaemonUnreachable("nobody is there")))
    try:
        structlog.configure()
        with structlog.testing.capture_logs() as logs:
            await adapter.complete(QUESTION)
    finally:
        structlog.reset_defaults()
    assert [(line["event"], line["reason"]) for line in logs] == [("context_left_out", "daemon_unreachable")]


async def test_a_slow_source_is_not_waited_for() -> None:
    model, source = Model(), Silent()
    request = {"messages": QUESTION}
    adapter = adapter_of(model, source, deadline_s=0.001)
    await adapter.complete(request)
    assert model.requests[0] is request
    assert source.cancelled.is_set()
    assert adapter.outcomes == {"deadline_exceeded": 1}


async def test_a_cancelled_call_cancels_retrieval_and_skips_the_model() -> None:
    model, source = Model(), Silent()
    calling = asyncio.create_task(adapter_of(model, source, deadline_s=60).complete(QUESTION))
    await source.asked.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert source.cancelled.is_set()
    assert not model.requests


async def test_a_bug_of_a_dialect_fails_no_call() -> None:
    class Broken(OpenAIChat):
        def turns(self, body: Any) -> Any:
            raise KeyError("messages")

    model, request = Model(), {"messages": QUESTION}
    adapter = ContextAwareModelAdapter(model, Answering(), dialect=Broken())
    await adapter.complete(request)
    assert model.requests[0] is request
    assert adapter.outcomes == {"other": 1}


async def test_streams_carry_it_too_and_end_with_their_reader() -> None:
    model, source = Model(), Answering()
    events = adapter_of(model, source).stream({"messages": QUESTION})
    async for _ in events:
        break
    assert not model.closed.is_set()
    await events.aclose()  # type: ignore[attr-defined] # an async generator
    assert model.closed.is_set()
    assert model.requests[0]["messages"][0]["content"] == "block for how do we deploy?"


async def test_at_the_tail_earlier_blocks_are_given_again() -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source, position="tail")
    await adapter.complete(chat("one?"))
    await adapter.complete(chat("one?", "One.", "two?"))
    first, second = (request["messages"] for request in model.requests)
    assert second[0] == first[0]
    assert second[2]["content"] == "two?\n\nblock for two?"
    assert "block for one?" in source.asked[1].present
    assert adapter.outcomes == {"new": 2}


async def test_a_tool_round_reuses_its_block_without_a_question() -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source)
    asked = chat("one?")
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    result = {"role": "tool", "tool_call_id": "a", "content": "found"}
    await adapter.complete(asked)
    await adapter.complete({"messages": [*asked["messages"], call, result]})
    assert len(source.asked) == 1
    assert model.requests[1]["messages"][0] == model.requests[0]["messages"][0]
    assert adapter.outcomes == {"new": 1, "again": 1}


async def test_memory_that_changed_changes_the_answer_to_the_same_question() -> None:
    known = ["", "now it is known"]
    model = Model()
    adapter = adapter_of(model, Answering(lambda _: known.pop(0)))
    await adapter.complete({"messages": QUESTION})
    await adapter.complete({"messages": QUESTION})
    assert [len(request["messages"]) for request in model.requests] == [1, 2]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_chain_of_replies_is_one_conversation(streamed: bool) -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source, dialect="openai_responses")
    if streamed:
        _ = [event async for event in adapter.stream({"input": "one?"})]
    else:
        await adapter.complete({"input": "one?"})
    result = {"type": "function_call_output", "call_id": "a", "output": "found"}
    await adapter.complete({"previous_response_id": "r1", "input": [result]})
    assert model.requests[1]["instructions"] == "block for one?"
    assert len(source.asked) == 1


async def test_concurrent_calls_keep_their_conversations_apart() -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source, position="tail")

    async def converse(name: str) -> None:
        first, second = f"{name} one?", f"{name} two?"
        await adapter.complete(chat(first), session=name)
        await adapter.complete(chat(first, "Yes.", second), session=name)

    names = [f"s{number}" for number in range(20)]
    await asyncio.gather(*map(converse, names))
    for request in model.requests:
        texts = [
            text
            for message in request["messages"]
            if message["role"] == "user"
            for text in message["content"].split("\n\n")
        ]
        (name,) = {text.removeprefix("block for ").split()[0] for text in texts}
        assert name in names
        assert len(texts) in {2, 4}


async def test_a_block_never_crosses_a_namespace() -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source, position="tail")
    await adapter.complete(chat("one?"), namespace="a")
    await adapter.complete(chat("one?", "One.", "two?"), namespace="b")
    assert model.requests[1]["messages"][0]["content"] == "one?"


async def test_whose_call_it_is_reaches_the_source() -> None:
    source = Answering()
    adapter = adapter_of(Model(), source)
    await adapter.complete(
        QUESTION, agent="ann", headers={"X-Agentctx-Session": "s", "X-Agentctx-Namespace": "n"}
    )
    scope = source.asked[0].scope
    assert (scope.session, scope.agent, scope.namespaces) == ("s", "ann", ("n",))


async def test_a_call_can_opt_out() -> None:
    model, source = Model(), Answering()
    adapter = adapter_of(model, source)
    await adapter.complete(QUESTION, headers={"X-Agentctx-Inject": "off"})
    assert model.requests[0] is QUESTION
    assert not source.asked
    assert adapter.outcomes == {"off": 1}


async def test_a_request_without_a_place_for_the_block_is_sent_unchanged() -> None:
    model = Model()
    request = {"cachedContent": "c", "contents": [{"parts": [{"text": "hi"}]}]}
    adapter = adapter_of(model, Answering(), dialect="gemini")
    await adapter.complete(request)
    assert model.requests[0] is request
    assert adapter.outcomes == {"no_place": 1}


async def test_telemetry_is_reported_in_bounded_words() -> None:
    recorder = Recorder()
    adapter = adapter_of(Model(), Answering(), telemetry=recorder)
    await adapter.complete(QUESTION)
    await adapter.complete(QUESTION, headers={"X-Agentctx-Inject": "off"})
    metrics = scraped(exposition(recorder.samples()))
    assert metrics['agentctx_injections_total{block="new",position="system"}'] == 1
    assert metrics['agentctx_injections_left_out_total{reason="off"}'] == 1


async def test_an_error_of_the_model_is_raised() -> None:
    async def refuse(messages: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ContextAwareModelAdapter(FunctionModelAdapter(refuse), Answering()).complete(QUESTION)


def test_a_model_that_does_not_name_its_format_needs_a_setting() -> None:
    with pytest.raises(InvalidInput) as raised:
        ContextAwareModelAdapter(Model(), Answering())
    assert "dialect=" in raised.value.hint
    with pytest.raises(InvalidInput):
        adapter_of(Model(), Answering(), dialect="openai")
    with pytest.raises(InvalidInput):
        adapter_of(Model(), Answering(), position="head")


class Refusing(Model):
    """Refuses what contains the block, as the SDKs' exceptions do."""

    def __init__(self, status: int = 422) -> None:
        super().__init__()
        self.status = status

    def _check(self, request: Any) -> None:
        if BLOCK in str(request):
            error = Exception("refused")
            error.status_code = self.status  # type: ignore[attr-defined]
            raise error

    async def complete(self, request: Any, /) -> Any:
        reply = await super().complete(request)
        self._check(request)
        return reply

    async def stream(self, request: Any, /) -> AsyncIterator[Any]:
        self.requests.append(request)
        self._check(request)
        yield {"type": "response.completed"}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_refused_request_goes_once_more_as_it_came(is_streamed: bool) -> None:
    model = Refusing()
    adapter = adapter_of(model, Answering())
    for _ in range(4):
        if is_streamed:
            assert [event async for event in adapter.stream(chat("how do we deploy?"))]
        else:
            await adapter.complete(chat("how do we deploy?"))
    with_block = [BLOCK in str(request) for request in model.requests]
    assert with_block == [True, False] * 3 + [False], "after three, none is changed"
    assert adapter.outcomes == {"new": 3, "refused": 4}


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_other_failures_are_not_repeated(status: int) -> None:
    model = Refusing(status)
    with pytest.raises(Exception, match="refused"):
        await adapter_of(model, Answering()).complete(chat("how do we deploy?"))
    assert len(model.requests) == 1


async def test_a_request_without_context_is_not_repeated() -> None:
    model = Refusing(400)
    with pytest.raises(Exception, match="refused"):
        await adapter_of(model, Silent()).complete(chat(BLOCK))
    assert len(model.requests) == 1
