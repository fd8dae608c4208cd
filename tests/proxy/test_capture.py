"""Replies that become observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentctx.client.async_client import AsyncClient
from agentctx.fake_provider.answers import FakeAnswer, ToolCall
from agentctx.fake_provider.faults import HttpFault
from agentctx.wire import EntryView
from tests.proxy.running_proxy import MEMORY, QUESTION, RunningProxy, running_proxy

CHAT = "/openai/v1/chat/completions"
KEY = {"authorization": "Bearer k"}
NEWS = "The staging cluster was rebooted during lunch."


async def ask(proxy: RunningProxy, *, said: FakeAnswer | None = None, **more: Any) -> None:
    proxy.vendor.answer(said or FakeAnswer(text=f"{MEMORY} {NEWS}"))
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], **more}
    async with proxy.over_socket() as http:
        await http.post(CHAT, headers={**KEY, "X-Agentctx-Session": "s1", "X-Agentctx-Agent": "a"}, json=body)


async def observations(folder: Path) -> list[EntryView]:
    """What is saved in the end: a daemon that stops finishes what it heard."""
    async with running_proxy(folder, saved="") as again:
        return await saved(again.memory)


async def saved(memory: AsyncClient) -> list[EntryView]:
    return [entry async for entry in memory.iterate(collections=["observation"])]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_new_in_a_reply_is_an_observation_of_trust_external(
    tmp_path: Path, stream: bool
) -> None:
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        await ask(proxy, stream=stream)
    (entry,) = await observations(tmp_path)
    assert (entry.content, entry.origin, entry.trust) == (NEWS, "capture", "external")
    assert (entry.session, entry.agent) == ("s1", "a")


async def test_the_reply_of_a_tool_round_is_made_of_what_was_given_before_it(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    rounds = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        (source,) = [entry async for entry in proxy.memory.iterate()]
        await ask(proxy, said=FakeAnswer(calls=(ToolCall(name="look", arguments={}),)))
        await ask(proxy, said=FakeAnswer(text=NEWS), messages=rounds)
    (entry,) = await observations(tmp_path)
    assert (entry.content, entry.derived_from) == (NEWS, [source.id])


async def test_a_reply_longer_than_an_entry_may_be_is_left_out(tmp_path: Path) -> None:
    limits = {"max_content_chars": 2_000}
    async with running_proxy(tmp_path, proxy={"capture": True}, limits=limits) as proxy:
        await ask(proxy, said=FakeAnswer(text=" ".join(f"word{number}" for number in range(500))))
        await ask(proxy, said=FakeAnswer(text=NEWS))
    (entry,) = await observations(tmp_path)
    assert entry.content == NEWS


async def test_capture_is_off_unless_wanted(tmp_path: Path) -> None:
    async with running_proxy(tmp_path) as proxy:
        await ask(proxy)
    assert await observations(tmp_path) == []


async def test_what_was_injected_turns_ago_is_not_new(tmp_path: Path) -> None:
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        await ask(proxy, said=FakeAnswer(text="Yes."))
        proxy.vendor.answer(FakeAnswer(text=f"As I said:\n> {MEMORY}"))
        turns = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Say it again, word for word?"},
        ]
        async with proxy.over_socket() as http:
            headers = {**KEY, "X-Agentctx-Session": "s1", "X-Agentctx-Agent": "a"}
            await http.post(CHAT, headers=headers, json={"model": "m", "messages": turns})
    assert await observations(tmp_path) == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (FakeAnswer(calls=(ToolCall(name="look", arguments={"a": "one two three four five"}),)), None),
        (None, HttpFault.refuses(500)),
        (None, HttpFault(kind="wrong_content_type")),
    ],
    ids=["tool calls", "an error", "a page"],
)
async def test_what_the_model_did_not_say_is_not_saved(
    tmp_path: Path, said: FakeAnswer | None, fault: HttpFault | None
) -> None:
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        if fault is not None:
            proxy.vendor.script(fault)
        await ask(proxy, said=said)
    assert await observations(tmp_path) == []
