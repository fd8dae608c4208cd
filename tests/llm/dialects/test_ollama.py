"""Strings only."""

from __future__ import annotations

from agentctx.llm.dialects.ollama import Ollama

DIALECT = Ollama()


def test_the_block_joins_the_last_leading_system_message() -> None:
    body = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]}
    assert DIALECT.inject_system(body, "block")["messages"][0] == {"role": "system", "content": "s\n\nblock"}


def test_pictures_belong_to_the_turn() -> None:
    def turn(*images: str) -> str:
        body = {"messages": [{"role": "user", "content": "what?", "images": list(images)}]}
        return DIALECT.read(body).user_turns[0].hash

    assert turn("AAAA") != turn("BBBB")


def test_a_turn_of_another_shape_is_unchanged() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    assert DIALECT.inject_after(body, 0, "block") is body


def test_a_system_message_of_another_shape_is_unchanged() -> None:
    body = {"messages": [{"role": "system", "content": {"text": "s"}}]}
    assert DIALECT.inject_system(body, "block") is body
