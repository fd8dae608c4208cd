"""The vendors' real SDKs through the proxy, over the socket and over TCP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctx.client.sdk import anthropic as sync_anthropic
from agentctx.client.sdk import async_anthropic, async_openai
from agentctx.client.sdk import openai as sync_openai
from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall
from agentctx_testing.fake_provider.faults import HttpFault
from tests.llm.proxy.running_proxy import HEADING, QUESTION, RunningProxy

if TYPE_CHECKING:  # each process would load them to collect the tests
    import anthropic
    import openai

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER: Any = [{"role": "user", "content": QUESTION}]
CLAUDE = "claude-opus-5"
GPT = "gpt-5.6"
WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALLS = (
    ToolCall(id="call_1", name="weather", arguments={"city": "Oslo"}),
    ToolCall(id="call_2", name="weather", arguments={"city": "Rome"}),
)


@pytest.fixture(params=["socket", "tcp"])
async def gpt(
    request: pytest.FixtureRequest, proxy: RunningProxy, tmp_path: Path
) -> AsyncIterator[openai.AsyncOpenAI]:
    if request.param == "socket":
        client = async_openai(proxy.socket, session=tmp_path.name, api_key="k", max_retries=0)
    else:
        import openai

        client = openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{proxy.port}/t/{proxy.token}/proxy/openai/v1",
            api_key="k",
            max_retries=0,
        )
    async with client:
        yield client


@pytest.fixture(params=["socket", "tcp"])
async def claude(
    request: pytest.FixtureRequest, proxy: RunningProxy, tmp_path: Path
) -> AsyncIterator[anthropic.AsyncAnthropic]:
    if request.param == "socket":
        client = async_anthropic(proxy.socket, session=tmp_path.name, api_key="k", max_retries=0)
    else:
        import anthropic

        client = anthropic.AsyncAnthropic(
            base_url=f"http://127.0.0.1:{proxy.port}/proxy/anthropic",
            auth_token="bearer",
            max_retries=0,
            default_headers={"X-Agentctx-Token": proxy.token},
        )
    async with client:
        yield client


def injected(proxy: RunningProxy) -> bool:
    return HEADING in json.dumps(proxy.last_body)


async def test_openai_chat(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    reply = await gpt.chat.completions.with_raw_response.create(model=GPT, messages=USER)
    assert injected(proxy)
    assert reply.headers["x-agentctx-injection"]
    assert "You said" in str(reply.parse().choices[0].message.content)


async def test_openai_chat_streamed(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    stream: Any = await gpt.chat.completions.create(model=GPT, messages=USER, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text.startswith("You said")
    assert injected(proxy)


async def test_openai_responses(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    reply = await gpt.responses.create(model=GPT, input=QUESTION)
    assert "You said" in reply.output_text
    assert injected(proxy)
    async with gpt.responses.stream(model=GPT, input=QUESTION) as stream:
        assert [event async for event in stream][-1].type == "response.completed"
    assert injected(proxy)


async def test_openai_parallel_tool_calls_and_their_results(
    gpt: openai.AsyncOpenAI, proxy: RunningProxy
) -> None:
    proxy.vendor.answer(FakeAnswer(calls=CALLS, request=1), FakeAnswer(text="Cold and warm."))
    tools: Any = [{"type": "function", "function": WEATHER}]
    messages: list[Any] = list(USER)
    first = await gpt.chat.completions.create(model=GPT, messages=messages, tools=tools)
    block = proxy.last_body["messages"]
    calls = first.choices[0].message.tool_calls or []
    assert [call.id for call in calls] == ["call_1", "call_2"]
    messages.append(first.choices[0].message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "9 degrees"} for call in calls]
    await gpt.chat.completions.create(model=GPT, messages=messages, tools=tools)
    assert proxy.last_body["messages"][0] == block[0], "the same block, at the same place"
    assert str(proxy.last_body).count(HEADING) == 1


async def test_openai_picture(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    content: Any = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    await gpt.chat.completions.create(model=GPT, messages=[{"role": "user", "content": content}])
    assert proxy.last_body["messages"][0]["content"][:2] == content
    assert injected(proxy)


async def test_openai_abort(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    proxy.vendor.script(HttpFault(kind="slow_pieces"))
    stream: Any = await gpt.chat.completions.create(model=GPT, messages=USER, stream=True)
    await proxy.vendor.wait_until_held()
    await stream.close()
    await proxy.vendor.wait_until_aborted()


async def test_openai_errors_are_the_vendors(gpt: openai.AsyncOpenAI, proxy: RunningProxy) -> None:
    import openai

    proxy.vendor.script(HttpFault.with_status(429, hint="seconds", after_s=3))
    with pytest.raises(openai.RateLimitError) as caught:
        await gpt.chat.completions.create(model=GPT, messages=USER)
    assert caught.value.response.headers["retry-after"] == "3"
    assert caught.value.request_id


async def test_anthropic_messages(claude: anthropic.AsyncAnthropic, proxy: RunningProxy) -> None:
    reply = await claude.messages.create(model=CLAUDE, max_tokens=50, messages=USER)
    assert "You said" in str(reply.content)
    assert injected(proxy)
    assert proxy.last.header("anthropic-version")


async def test_anthropic_streamed(claude: anthropic.AsyncAnthropic, proxy: RunningProxy) -> None:
    async with claude.messages.stream(model=CLAUDE, max_tokens=50, messages=USER) as stream:
        assert (await stream.get_final_text()).startswith("You said")
    assert injected(proxy)


async def test_anthropic_parallel_tools(claude: anthropic.AsyncAnthropic, proxy: RunningProxy) -> None:
    proxy.vendor.answer(FakeAnswer(calls=CALLS, request=1), FakeAnswer(text="Cold and warm."))
    tools: Any = [{"name": "weather", "input_schema": WEATHER["parameters"]}]
    messages: list[Any] = list(USER)
    first = await claude.messages.create(model=CLAUDE, max_tokens=50, messages=messages, tools=tools)
    block = proxy.last_body["messages"][0]
    results = [
        {"type": "tool_result", "tool_use_id": part.id, "content": "9 degrees"}
        for part in first.content
        if part.type == "tool_use"
    ]
    assert len(results) == 2
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    await claude.messages.create(model=CLAUDE, max_tokens=50, messages=messages, tools=tools)
    assert proxy.last_body["messages"][0] == block
    assert str(proxy.last_body).count(HEADING) == 1


async def test_anthropic_picture_and_abort(claude: anthropic.AsyncAnthropic, proxy: RunningProxy) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    messages: Any = [{"role": "user", "content": content}]
    await claude.messages.create(model=CLAUDE, max_tokens=50, messages=messages)
    assert proxy.last_body["messages"][0]["content"][:2] == content
    proxy.vendor.script(HttpFault(kind="slow_pieces"))
    stream = await claude.messages.create(model=CLAUDE, max_tokens=50, messages=messages, stream=True)
    await proxy.vendor.wait_until_held()
    await stream.close()
    await proxy.vendor.wait_until_aborted()


async def test_the_context_comes_from_the_namespaces_of_the_client(proxy: RunningProxy) -> None:
    await proxy.memory.save_knowledge(
        "deploy", "The deploy window is on Friday.", namespace="user-42", wait="embedded"
    )
    for namespace, found in (("user-42", (True, False)), (["user-42", "default"], (True, True))):
        made = async_openai(proxy.socket, namespace=namespace, fallback=True, api_key="k", max_retries=0)
        async with made as client:
            await client.responses.create(model=GPT, input=QUESTION)
        sent = json.dumps(proxy.last_body)
        assert ("Friday" in sent, "Tuesday" in sent) == found


async def test_the_synchronous_clients_are_bound_as_well() -> None:
    with sync_openai(agent="a", api_key="k", default_headers={"X-Mine": "1"}) as gpt:
        assert str(gpt.base_url) == "http://agentctx/proxy/openai/v1/"
        assert gpt.default_headers["X-Agentctx-Agent"] == "a"
        assert gpt.default_headers["X-Mine"] == "1"
    with sync_anthropic(api_key="k") as claude:
        assert str(claude.base_url).rstrip("/") == "http://agentctx/proxy/anthropic"
