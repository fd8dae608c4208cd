"""The place of the system block among several system messages."""

from __future__ import annotations

from agentctx.model_adapters.dialects.openai_chat import OpenAIChat

DIALECT = OpenAIChat()


def test_the_block_follows_all_leading_system_messages_in_their_own_role() -> None:
    system = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]
    user = {"role": "user", "content": "hi"}
    injected = DIALECT.inject_system({"messages": [*system, user]}, "block")
    assert injected["messages"] == [*system, {"role": "developer", "content": "block"}, user]


def test_without_a_system_prompt_the_block_is_a_system_message() -> None:
    injected = DIALECT.inject_system({"messages": [{"role": "user", "content": "hi"}]}, "block")
    assert injected["messages"][0] == {"role": "system", "content": "block"}


def test_equal_beginnings_under_two_cache_keys_are_two_conversations() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    keys = {DIALECT.conversation_key({**body, "prompt_cache_key": name}) for name in ("a", "b")}
    assert len(keys) == 2
