"""The official packages take the fake's chats for the real thing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import FakeProviderServer
from agentctx_testing_tests.fake_provider.late import Late

openai = Late("openai")
anthropic = Late("anthropic")

GPT, CLAUDE = "gpt-5.4-mini", "claude-opus-4-8"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ASK = [{"role": "user", "content": "hello there"}]
ECHO = "You said: hello there"
OSLO = ToolCall(name="weather", arguments={"city": "Oslo", "days": [1, 2]})
ROME = ToolCall(name="weather", arguments={"city": "Røm"})
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
IN_PARALLEL = FakeAnswer(text="Let me look.", calls=(OSLO, ROME))
DONE = FakeAnswer(text="Rain in both.", contains="9 degrees")


@pytest.fixture
async def gpt(server: FakeProviderServer) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=server.base_url("openai"), api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
async def claude(server: FakeProviderServer) -> AsyncIterator[Any]:
    url = server.base_url("anthropic")
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        yield client


class TestChatCompletions:
    async def test_a_text(self, gpt: Any) -> None:
        reply = await gpt.chat.completions.create(model=GPT, messages=ASK)
        assert reply.choices[0].message.content == ECHO
        assert (reply.choices[0].finish_reason, reply.model) == ("stop", GPT)
        assert reply.usage.prompt_tokens == 4
        assert reply.usage.prompt_tokens_details.cached_tokens == 0

    async def test_a_stream(self, gpt: Any) -> None:
        options = {"include_usage": True}
        chunks = [
            chunk
            async for chunk in await gpt.chat.completions.create(
                model=GPT, messages=ASK, stream=True, stream_options=options
            )
        ]
        text_of = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
        assert "".join(text_of) == ECHO
        assert len([piece for piece in text_of if piece]) == 4
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert (chunks[-1].choices, chunks[-1].usage.prompt_tokens) == ([], 4)

    async def test_a_loop_over_parallel_calls(self, server: FakeProviderServer, gpt: Any) -> None:
        server.answer(DONE, IN_PARALLEL)
        tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
        asked = {"model": GPT, "tools": tools}
        reply = (await gpt.chat.completions.create(messages=ASK, **asked)).choices[0]
        calls = reply.message.tool_calls
        assert (reply.finish_reason, reply.message.content) == ("tool_calls", "Let me look.")
        assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Oslo", "Røm"]
        assert calls[0].id != calls[1].id
        results = [{"role": "tool", "tool_call_id": call.id, "content": "9 degrees"} for call in calls]
        messages = [*ASK, reply.message.model_dump(exclude_none=True), *results]
        again = await gpt.chat.completions.create(messages=messages, **asked)
        assert again.choices[0].message.content == "Rain in both."
        with pytest.raises(openai.BadRequestError, match="did not have response messages"):
            await gpt.chat.completions.create(messages=messages[:-1], **asked)

    async def test_streamed_calls_come_in_pieces(self, server: FakeProviderServer, gpt: Any) -> None:
        server.answer(IN_PARALLEL)
        async with gpt.chat.completions.stream(model=GPT, messages=ASK) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_completion()
        deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
        assert len(deltas) > 4
        calls = final.choices[0].message.tool_calls
        assert [json.loads(call.function.arguments) for call in calls] == [OSLO.arguments, ROME.arguments]

    async def test_an_image(self, gpt: Any) -> None:
        parts = [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]
        reply = await gpt.chat.completions.create(model=GPT, messages=[{"role": "user", "content": parts}])
        assert reply.choices[0].message.content == "You said: what is this? (images: 1)"

    async def test_an_error_in_the_stream(self, server: FakeProviderServer, gpt: Any) -> None:
        server.script(HttpFault(kind="stream_error", message="overloaded"))
        stream = await gpt.chat.completions.create(model=GPT, messages=ASK, stream=True)
        with pytest.raises(openai.APIError, match="overloaded"):
            [chunk async for chunk in stream]

    async def test_models(self, gpt: Any) -> None:
        assert GPT in [model.id async for model in gpt.models.list()]


class TestResponses:
    async def test_a_text_reply_and_a_stored_conversation(self, gpt: Any) -> None:
        first = await gpt.responses.create(model=GPT, input="hello there", instructions="be brief")
        assert first.output_text == ECHO
        assert first.usage.input_tokens == 3 + 2
        second = await gpt.responses.create(model=GPT, input="and?", previous_response_id=first.id)
        assert second.output_text == "You said: and?"
        assert second.usage.input_tokens > first.usage.input_tokens, "the first turn is counted again"
        assert second.previous_response_id == first.id
        with pytest.raises(openai.BadRequestError) as caught:
            await gpt.responses.create(model=GPT, input="and?", previous_response_id="resp_none")
        assert caught.value.code == "previous_response_not_found"

    async def test_an_unstored_response_cannot_be_continued(self, gpt: Any) -> None:
        first = await gpt.responses.create(model=GPT, input="a", store=False)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await gpt.responses.create(model=GPT, input="b", previous_response_id=first.id)

    async def test_a_stream(self, gpt: Any) -> None:
        async with gpt.responses.stream(model=GPT, input="hello there") as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert kinds[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert kinds.count("response.output_text.delta") == 4
        assert kinds[-1] == "response.completed"
        assert final.output_text == ECHO

    async def test_a_loop_over_parallel_calls(self, server: FakeProviderServer, gpt: Any) -> None:
        server.answer(DONE, IN_PARALLEL)
        async with gpt.responses.stream(model=GPT, input="hello there") as stream:
            kinds = [event.type async for event in stream]
            first = await stream.get_final_response()
        calls = [item for item in first.output if item.type == "function_call"]
        assert kinds.count("response.function_call_arguments.done") == 2
        assert kinds.count("response.function_call_arguments.delta") > 4
        assert [json.loads(call.arguments) for call in calls] == [OSLO.arguments, ROME.arguments]
        outputs = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "9 degrees"} for call in calls
        ]
        again = await gpt.responses.create(model=GPT, input=outputs, previous_response_id=first.id)
        assert again.output_text == "Rain in both."
        whole = [*ASK, *(item.model_dump() for item in first.output), *outputs]
        assert (await gpt.responses.create(model=GPT, input=whole)).output_text == "Rain in both."
        with pytest.raises(openai.BadRequestError, match="No tool output found"):
            await gpt.responses.create(model=GPT, input=outputs[:1], previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="No tool call found"):
            await gpt.responses.create(model=GPT, input=outputs)

    async def test_an_image(self, gpt: Any) -> None:
        parts = [
            {"type": "input_text", "text": "what is this?"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        ]
        reply = await gpt.responses.create(model=GPT, input=[{"role": "user", "content": parts}])
        assert reply.output_text == "You said: what is this? (images: 1)"

    async def test_an_error_in_the_stream(self, server: FakeProviderServer, gpt: Any) -> None:
        server.script(HttpFault(kind="stream_error", message="overloaded"))
        stream = await gpt.responses.create(model=GPT, input="a", stream=True)
        events = [event async for event in stream]
        assert (events[0].type, events[-1].type) == ("response.created", "error")
        assert events[-1].message == "overloaded"


class TestMessages:
    async def test_a_text_and_its_tokens(self, claude: Any) -> None:
        asked = {"model": CLAUDE, "system": "x" * 8_000, "messages": ASK}
        reply = await claude.messages.create(**asked, max_tokens=100)
        assert (reply.content[0].text, reply.stop_reason) == (ECHO, "end_turn")
        counted = await claude.messages.count_tokens(**asked)
        assert reply.usage.input_tokens == counted.input_tokens > 2_000

    async def test_a_stream(self, claude: Any) -> None:
        async with claude.messages.stream(model=CLAUDE, max_tokens=100, messages=ASK) as stream:
            text_of = [text async for text in stream.text_stream]
            final = await stream.get_final_message()
        assert (len(text_of), "".join(text_of)) == (4, ECHO)
        assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == ("end_turn", 4, 6)

    @pytest.mark.parametrize("is_streamed", [False, True])
    async def test_a_loop_over_parallel_calls(
        self, server: FakeProviderServer, claude: Any, *, is_streamed: bool
    ) -> None:
        server.answer(DONE, IN_PARALLEL)
        tools = [{"name": "weather", "input_schema": PARAMETERS}]
        asked = {"model": CLAUDE, "max_tokens": 100, "tools": tools}
        if is_streamed:
            async with claude.messages.stream(messages=ASK, **asked) as stream:
                reply = await stream.get_final_message()
        else:
            reply = await claude.messages.create(messages=ASK, **asked)
        calls = [block for block in reply.content if block.type == "tool_use"]
        assert (reply.stop_reason, reply.content[0].text) == ("tool_use", "Let me look.")
        assert [call.input for call in calls] == [OSLO.arguments, ROME.arguments]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "9 degrees"} for call in calls]
        note = {"type": "text", "text": "go on"}
        before = [*ASK, {"role": "assistant", "content": [block.to_dict() for block in reply.content]}]
        again = await claude.messages.create(
            messages=[*before, {"role": "user", "content": [*results, note]}], **asked
        )
        assert again.content[0].text == "Rain in both."
        for wrong in ([note, *results], results[:1]):
            with pytest.raises(anthropic.BadRequestError, match="tool_use"):
                await claude.messages.create(messages=[*before, {"role": "user", "content": wrong}], **asked)

    async def test_an_image(self, claude: Any) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        parts = [{"type": "image", "source": source}, {"type": "text", "text": "what is this?"}]
        reply = await claude.messages.create(
            model=CLAUDE, max_tokens=100, messages=[{"role": "user", "content": parts}]
        )
        assert reply.content[0].text == "You said: what is this? (images: 1)"

    async def test_both_authentication_headers_work(self, server: FakeProviderServer) -> None:
        url = server.base_url("anthropic")
        # The package sends both its kinds of credentials as bearer tokens; older ones send x-api-key.
        as_before: dict[str, Any] = {"api_key": None, "default_headers": {"x-api-key": "k"}}
        for credentials in ({"api_key": "k"}, {"auth_token": "t"}, as_before):
            async with anthropic.AsyncAnthropic(base_url=url, max_retries=0, **credentials) as client:
                await client.messages.create(model=CLAUDE, max_tokens=1, messages=ASK)
        sent = [(seen.header("authorization"), seen.header("x-api-key")) for seen in server.requests]
        assert sent == [("Bearer k", None), ("Bearer t", None), (None, "k")]
        assert all(seen.header("anthropic-version") for seen in server.requests)

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, "BadRequestError"),
            (401, "AuthenticationError"),
            (403, "PermissionDeniedError"),
            (404, "NotFoundError"),
            (413, "RequestTooLargeError"),
            (429, "RateLimitError"),
            (500, "InternalServerError"),
            (529, "OverloadedError"),
        ],
    )
    async def test_its_own_errors(
        self, server: FakeProviderServer, claude: Any, status: int, error: str
    ) -> None:
        server.script(HttpFault.with_status(status))
        kind = getattr(anthropic, error, None) or getattr(anthropic._exceptions, error)
        with pytest.raises(kind, match="scripted fault"):
            await claude.messages.create(model=CLAUDE, max_tokens=1, messages=ASK)

    async def test_an_error_in_the_stream(self, server: FakeProviderServer, claude: Any) -> None:
        server.script(HttpFault(kind="stream_error", status=529, message="overloaded"))
        stream = await claude.messages.create(model=CLAUDE, max_tokens=1, messages=ASK, stream=True)
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            [event async for event in stream]

    async def test_models(self, claude: Any) -> None:
        assert CLAUDE in [model.id async for model in claude.models.list()]
