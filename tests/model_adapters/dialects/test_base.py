"""What names a turn within its conversation."""

from __future__ import annotations

from typing import Any

from agentctx.model_adapters.dialects.openai_chat import OpenAIChat

DIALECT = OpenAIChat()


def said(*texts: str) -> list[dict[str, Any]]:
    """Turns of user and assistant in alternation."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


def last_hash(*texts: str) -> str:
    return DIALECT.user_turns({"messages": said(*texts)})[-1].hash


def test_the_same_words_after_another_answer_are_another_turn() -> None:
    assert last_hash("a?", "Drop it?", "yes") != last_hash("b?", "Keep it?", "yes")


def test_a_turn_outlives_the_removal_of_older_ones() -> None:
    assert last_hash("a?", "A.", "b?", "B.", "c?") == last_hash("b?", "B.", "c?")
