"""The place of the system block among several system messages."""

from __future__ import annotations

from typing import Any

from agentctx.llm.dialects.openai_chat import OpenAIChat

DIALECT = OpenAIChat()


def test_the_block_ends_the_last_leading_system_message() -> None:
    system = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]
    user = {"role": "user", "content": "hi"}
    injected = DIALECT.inject_system({"messages": [*system, user]}, "block")
    assert injected["messages"] == [system[0], {"role": "developer", "content": "b\n\nblock"}, user]


def test_there_is_never_a_second_system_message() -> None:
    user = {"role": "user", "content": "hi"}
    for content, expected in (
        ("", "block"),
        ("a", "a\n\nblock"),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}, {"type": "text", "text": "block"}]),
    ):
        system, changed = ({"role": "system", "content": each} for each in (content, expected))
        assert DIALECT.inject_system({"messages": [system, user]}, "block")["messages"] == [changed, user]
        assert DIALECT.inject_system({"messages": [user, system]}, "block")["messages"] == [user, changed]
    contents: list[Any] = [None, [], {"text": "a"}]
    for odd in contents:
        body = {"messages": [{"role": "system", "content": odd}, user]}
        assert DIALECT.inject_system(body, "block") is body


def test_without_a_system_prompt_the_block_is_a_system_message() -> None:
    injected = DIALECT.inject_system({"messages": [{"role": "user", "content": "hi"}]}, "block")
    assert injected["messages"][0] == {"role": "system", "content": "block"}


def test_equal_beginnings_under_two_cache_keys_are_two_conversations() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    keys = {DIALECT.conversation_key({**body, "prompt_cache_key": name}) for name in ("a", "b")}
    assert len(keys) == 2
