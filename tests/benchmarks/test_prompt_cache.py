"""A shorter replay of the benchmark; its bar is met for every API."""

from __future__ import annotations

from itertools import count

import pytest

from agentctx.llm.dialects.registry import find_dialect
from agentctx.service.rag.render import HEADING
from benchmarks.prompt_blocks import anthropic_blocks, openai_chat_blocks
from benchmarks.prompt_cache import APIS, LEAST_KEPT, Api, injecting, measure, own_tokens, replay
from benchmarks.tool_conversation import Body, Conversation, converse

BY_NAME = {api.name: api for api in APIS}


@pytest.fixture(scope="module")
def conversation() -> Conversation:
    return converse(5)


@pytest.mark.parametrize("name", list(BY_NAME))
async def test_the_tail_keeps_the_cache_and_system_does_not(name: str, conversation: Conversation) -> None:
    api = BY_NAME[name]
    none = await replay(api, conversation)
    tail = await replay(api, conversation, injecting(conversation, "tail"))
    system = await replay(api, conversation, injecting(conversation, "system"))
    assert none.cached > 0.5 * none.prompt
    assert tail.cached >= LEAST_KEPT * none.cached
    assert system.cached < 0.9 * none.cached
    # Blocks of earlier turns are given again at the tail; the system prompt holds one.
    assert tail.injected > system.injected > 0 == none.injected
    for injected in (tail, system):
        assert injected.prompt == pytest.approx(none.prompt, rel=0.001)


@pytest.mark.parametrize("name", list(BY_NAME))
async def test_a_block_that_changes_far_up_misses_the_bar(name: str, conversation: Conversation) -> None:
    numbers = count()

    async def at_the_first_turn(api: Api, body: Body) -> Body:
        dialect = find_dialect(api.dialect)
        first = dialect.read(body).user_turns[0].index
        return dict(dialect.inject_after(body, first, f"{HEADING} {next(numbers)}"))

    api = BY_NAME[name]
    none = await replay(api, conversation)
    assert (await replay(api, conversation, at_the_first_turn)).cached < LEAST_KEPT * none.cached


def test_where_our_tokens_stand() -> None:
    block = HEADING + "xxx"  # 28 bytes: 7 tokens
    messages = [
        {"role": "system", "content": "s" * 8},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
    ]
    messages.append({"role": "user", "content": [{"type": "text", "text": block}]})
    # Frames are one token each: 3, 2, then ours with its frame.
    assert own_tokens(openai_chat_blocks({"messages": messages})) == [(5, 1 + 7)]
    joined = {"system": "s" * 8 + block, "messages": []}
    assert own_tokens(anthropic_blocks(joined)) == [(3, 7)]


def test_a_conversation_is_the_same_every_time() -> None:
    assert converse(3) == converse(3)
    assert len(converse(3).questions) == 3


async def test_the_tail_of_each_api_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import prompt_cache
    from benchmarks.options import Options

    monkeypatch.setattr(prompt_cache, "QUICK_TURNS", 3)
    figures = await measure(Options(quick=True))
    judged = [figure for figure in figures if figure.bar]
    assert [figure.name for figure in judged] == [f"{api.name}: cached, tail" for api in APIS]
