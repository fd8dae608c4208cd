"""The name of a turn within its conversation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentctx.llm.dialects.base import fingerprint
from agentctx.llm.dialects.openai_chat import OpenAIChat

DIALECT = OpenAIChat()


def said(*texts: str) -> list[dict[str, Any]]:
    """Turns of user and assistant in alternation."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


def last_hash(*texts: str) -> str:
    return DIALECT.read({"messages": said(*texts)}).user_turns[-1].hash


def test_the_same_words_after_another_answer_are_another_turn() -> None:
    assert last_hash("a?", "Drop it?", "yes") != last_hash("b?", "Keep it?", "yes")


def test_a_turn_outlives_the_removal_of_older_ones() -> None:
    assert last_hash("a?", "A.", "b?", "B.", "c?") == last_hash("b?", "B.", "c?")


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_equal_content_and_nothing_else_has_an_equal_hash(one: Any, other: Any) -> None:
    same = repr(_sorted(one)) == repr(_sorted(other))
    assert (fingerprint(one) == fingerprint(other)) == same


def test_borders_between_values_count() -> None:
    assert fingerprint(["a", "b"]) != fingerprint(["ab"]) != fingerprint("ab")
    assert fingerprint([["a"], "b"]) != fingerprint([["a", "b"]])
    assert fingerprint("1") != fingerprint(1)
    assert fingerprint("a", "b") != fingerprint("ab")


def test_cache_markers_do_not_count() -> None:
    part = {"type": "text", "text": "x"}
    assert fingerprint([part]) == fingerprint([{**part, "cache_control": {"type": "ephemeral"}}])
    assert fingerprint([part]) == fingerprint([{**part, "prompt_cache_breakpoint": {"mode": "explicit"}}])


def test_a_lone_surrogate_is_taken() -> None:
    assert fingerprint("\ud800") != fingerprint("\ud801")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return ("object", sorted((key, _sorted(child)) for key, child in value.items()))
    return ("list", [_sorted(child) for child in value]) if isinstance(value, list) else value
