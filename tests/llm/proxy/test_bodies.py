"""Small bodies are read in this process, large ones in another, with the same result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from agentctx.errors import DeadlineExceeded, InvalidInput, TooLarge, Unavailable
from agentctx.llm.context_source import MAX_PRESENT_BYTES
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.registry import DIALECTS, find_dialect
from agentctx.llm.injection import InjectionRequest, ModelCall
from agentctx.llm.proxy import bodies as module
from agentctx.llm.proxy.bodies import BodyProcesses
from agentctx.llm.proxy.body import MAX_VALUES, JsonBody
from tests.llm.dialects.samples import SAMPLES

CHAT = find_dialect("openai_chat")
ASKED = json.dumps(SAMPLES["openai_chat"].asked()).encode()
NOTHING_GIVEN = Conversation()


@pytest.fixture
async def elsewhere() -> AsyncIterator[BodyProcesses]:
    """Reads every body in another process."""
    bodies = BodyProcesses(deadline_s=60, max_inline_bytes=-1)
    yield bodies
    await bodies.aclose()


async def exchanged(
    call: ModelCall[bytes], given: Conversation, new: str | None
) -> tuple[InjectionRequest, bytes]:
    asked = await call.read()
    return asked, await call.inject("tail", given, new)


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_another_process_reads_and_writes_the_same(name: str, elsewhere: BodyProcesses) -> None:
    here, dialect, samples = BodyProcesses(deadline_s=60), DIALECTS[name], SAMPLES[name]
    for body in (samples.asked(), samples.tool_round(), samples.continued()):
        data = json.dumps(body).encode()
        turns = dialect.read(body).user_turns
        given = Conversation({turn.hash: f"block {turn.index}" for turn in turns[:1]}, "block 0")
        async with here.call(dialect, data) as one, elsewhere.call(dialect, data) as other:
            expected, changed = await exchanged(one, given, "new \ud83d é")
            asked, changed_elsewhere = await exchanged(other, given, "new \ud83d é")
        assert asked == replace(expected, texts=list(expected.texts))
        assert changed_elsewhere == changed


async def test_the_very_same_bytes_go_out_where_nothing_is_put_in(elsewhere: BodyProcesses) -> None:
    gemini = json.dumps({**SAMPLES["gemini"].asked(), "cachedContent": "c"}).encode()
    async with elsewhere.call(CHAT, ASKED) as call:
        await call.read()
        assert await call.inject("tail", NOTHING_GIVEN, "") is ASKED
    async with elsewhere.call(find_dialect("gemini"), gemini) as call:
        await call.read()
        assert await call.inject("system", NOTHING_GIVEN, "a block without a place") is gemini


async def test_no_body_over_the_limit_is_parsed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed_here: list[int] = []

    class Counted(JsonBody):
        def asked(self) -> InjectionRequest:
            parsed_here.append(len(self.body))
            return super().asked()

    monkeypatch.setattr(module, "JsonBody", Counted)
    bodies = BodyProcesses(deadline_s=60)
    try:
        for size in (module.MAX_INLINE_BYTES, module.MAX_INLINE_BYTES + 1):
            padded = ASKED + b" " * (size - len(ASKED))
            async with bodies.call(CHAT, padded) as call:
                asked, changed = await exchanged(call, NOTHING_GIVEN, "a block")
            assert asked.question
            assert b"a block" in changed
    finally:
        await bodies.aclose()
    assert parsed_here == [module.MAX_INLINE_BYTES]


async def test_a_body_that_cannot_be_read_leaves_the_process_for_the_next(elsewhere: BodyProcesses) -> None:
    too_many = json.dumps({"messages": [0] * (MAX_VALUES + 1)}).encode()
    for data, error in ((b"nonsense", InvalidInput), (too_many, TooLarge)):
        async with elsewhere.call(CHAT, data) as call:
            with pytest.raises(error):
                await call.read()
    async with elsewhere.call(CHAT, ASKED) as call:
        assert (await call.read()).question
    assert len(elsewhere._processes) == 1


async def test_only_the_last_texts_of_a_long_conversation_come_back(elsewhere: BodyProcesses) -> None:
    texts = [f"{number} " + "a" * 100_000 for number in range(10)]
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    async with elsewhere.call(CHAT, json.dumps(body).encode()) as call:
        asked = await call.read()
    assert asked.texts == texts[-len(asked.texts) :]
    assert sum(map(len, asked.texts)) <= MAX_PRESENT_BYTES


async def test_a_process_that_ends_fails_its_call_and_no_other(elsewhere: BodyProcesses) -> None:
    async with elsewhere.call(CHAT, ASKED) as call:
        await call.read()
        (process,) = elsewhere._processes
        process.kill()
        with pytest.raises(Unavailable):
            await call.inject("tail", NOTHING_GIVEN, "a block")
    async with elsewhere.call(CHAT, ASKED) as call:
        assert (await call.read()).question


async def test_an_idle_process_that_has_ended_is_not_used_again(elsewhere: BodyProcesses) -> None:
    async with elsewhere.call(CHAT, ASKED) as call:
        await call.read()
    (process,) = elsewhere._processes
    process.kill()
    await process.wait()
    async with elsewhere.call(CHAT, ASKED) as call:
        assert (await call.read()).question


async def test_a_body_that_takes_too_long_is_given_up_with_its_process() -> None:
    bodies = BodyProcesses(deadline_s=0, s_per_mib=0, max_inline_bytes=-1)
    async with bodies.call(CHAT, ASKED) as call:
        with pytest.raises(DeadlineExceeded):
            await call.read()
    assert not bodies._idle
    await bodies.aclose()


async def test_further_bodies_wait_for_a_process() -> None:
    bodies = BodyProcesses(deadline_s=60, max_inline_bytes=-1, max_processes=1)
    async with bodies.call(CHAT, ASKED) as first, bodies.call(CHAT, ASKED) as second:
        await first.read()
        waiting = asyncio.create_task(second.read())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.05)
        await first.inject("tail", NOTHING_GIVEN, "a block")
        first.close()  # type: ignore[attr-defined] # what the end of its block does
        assert (await waiting).question
    assert len(bodies._processes) == 1
    await bodies.aclose()


async def test_no_process_outlives_the_bodies(elsewhere: BodyProcesses) -> None:
    async with elsewhere.call(CHAT, ASKED) as call:
        await call.read()
    (process,) = elsewhere._processes
    await elsewhere.aclose()
    assert not process.is_running
