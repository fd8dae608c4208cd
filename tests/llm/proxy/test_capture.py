"""Replies that are saved as observations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from agentctx.client.async_client import AsyncClient
from agentctx.llm.proxy.capture import new_text
from agentctx.service.rag.render import BlockPassage, parse, render
from agentctx.wire import EntryView
from agentctx_testing.fake_provider.answers import FakeAnswer, ToolCall
from agentctx_testing.fake_provider.faults import HttpFault
from tests.llm.proxy.running_proxy import MEMORY, QUESTION, RunningProxy, running_proxy

CHAT = "/openai/v1/chat/completions"
KEY = {"authorization": "Bearer k"}
NEWS = "The staging cluster was rebooted during lunch."


async def ask(proxy: RunningProxy, *, said: FakeAnswer | None = None, **more: Any) -> None:
    proxy.vendor.answer(said or FakeAnswer(text=f"{MEMORY} {NEWS}"))
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], **more}
    async with proxy.over_socket() as http:
        await http.post(CHAT, headers={**KEY, "X-Agentctx-Session": "s1", "X-Agentctx-Agent": "a"}, json=body)


async def observations(folder: Path) -> list[EntryView]:
    """Return what is saved after a stop: a stopping daemon saves what it has captured."""
    async with running_proxy(folder, saved="") as again:
        return await saved(again.memory)


async def saved(memory: AsyncClient) -> list[EntryView]:
    return [entry async for entry in memory.iterate(collections=["observation"])]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_new_reply_is_saved_as_an_observation_of_trust_external(tmp_path: Path, stream: bool) -> None:
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        await ask(proxy, stream=stream)
    (entry,) = await observations(tmp_path)
    assert (entry.content, entry.origin, entry.trust) == (NEWS, "capture", "external")
    assert (entry.session, entry.agent) == ("s1", "a")


async def test_the_reply_after_a_tool_round_derives_from_earlier_context(tmp_path: Path) -> None:
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


async def test_passages_injected_turns_ago_are_not_new(tmp_path: Path) -> None:
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
        (None, HttpFault.with_status(500)),
        (None, HttpFault(kind="wrong_content_type")),
    ],
    ids=["tool calls", "an error", "a page"],
)
async def test_only_the_models_own_words_are_saved(
    tmp_path: Path, said: FakeAnswer | None, fault: HttpFault | None
) -> None:
    async with running_proxy(tmp_path, proxy={"capture": True}) as proxy:
        if fault is not None:
            proxy.vendor.script(fault)
        await ask(proxy, said=said)
    assert await observations(tmp_path) == []


ROUNDS = 10_000
PASSAGE = "The deploy window is on Tuesday at nine; Rosa has the key."


@pytest.mark.parametrize(
    "reply",
    [
        PASSAGE,
        f"> {PASSAGE}",
        f"- **{PASSAGE}**",
        PASSAGE.upper(),
        "The deploy window is on\nTuesday at nine; Rosa has the key.",
        "As noted, the deploy window is on Tuesday at nine.",
        f"“{PASSAGE}”",
        "",
        "Yes.",
        "42",
    ],
)
def test_injected_passages_are_not_new(reply: str) -> None:
    assert new_text(reply, [PASSAGE]) == ""


def test_text_beside_an_injected_passage_is_new() -> None:
    reply = f"You asked about the window. {PASSAGE}\nThe staging cluster was rebooted during lunch."
    assert new_text(reply, [PASSAGE]) == (
        "You asked about the window.\nThe staging cluster was rebooted during lunch."
    )


def test_without_an_injection_everything_is_new() -> None:
    assert new_text("The staging cluster was rebooted.", []) == "The staging cluster was rebooted."


def test_injected_text_is_never_stored_again() -> None:
    """A memory that is injected, quoted in every way, captured and injected again does not grow."""
    rng = random.Random(20_261_122)
    words = [
        f"{first}{second}"
        for first in ("kor", "mal", "tes", "bri", "von")
        for second in ("da", "lin", "ost", "ek")
    ]

    def sentence() -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randint(5, 14))).capitalize() + "."

    memory = [" ".join(sentence() for _ in range(rng.randint(1, 4))) for _ in range(60)]
    first = set(memory)
    stored_again = 0
    for number in range(ROUNDS):
        given = rng.sample(memory, 4)
        passages = [
            BlockPassage(
                collection="observation", source="s", date="2026-11-22", trust="external", content=text
            )
            for text in given
        ]
        injected = [passage.content for passage in parse(render(passages, secret=b"k"))]
        fresh = (
            f"Step {number} of the work is {rng.choice(('finished', 'late', 'open'))} since {number} o'clock."
        )
        reply = "\n".join(_quoted(text, rng) for text in rng.sample(given, rng.randint(1, 3)))
        captured = new_text(f"{reply}\n{fresh}", injected)
        stored_again += any(line in text for line in captured.splitlines() for text in given)
        assert captured == fresh, (captured, given)
        memory[rng.randrange(len(memory))] = captured if number % 3 == 0 else memory[0]
    assert stored_again == 0
    assert first


def _quoted(text: str, rng: random.Random) -> str:
    return rng.choice(
        (
            lambda: text,
            lambda: f"> {text}",
            lambda: f"* **{text}**",
            text.upper,
            lambda: text.replace(" ", "\n", 1),
            lambda: f'"{text}"',
            lambda: text.partition(".")[0] + ".",
            lambda: "  ".join(text.split()),
        )
    )()
