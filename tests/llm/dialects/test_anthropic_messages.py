"""Cache markers, reminders and tool results in user turns."""

from __future__ import annotations

from typing import Any

from agentctx.llm.dialects.anthropic_messages import AnthropicMessages, markers

DIALECT = AnthropicMessages()
BLOCK = "## Semantic Context (RAG)"
MARKER = {"type": "ephemeral"}
MAX_MARKERS = 4


def body(content: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **fields}


def test_a_marker_for_the_last_block_moves_to_the_clients_last_block() -> None:
    parts = [{"type": "text", "text": "hi"}]
    injected = DIALECT.inject_after(body(parts, cache_control=MARKER), 0, BLOCK)
    assert injected == body(
        [{"type": "text", "text": "hi", "cache_control": MARKER}, {"type": "text", "text": BLOCK}]
    )


def test_a_string_stays_a_string_with_its_marker() -> None:
    asked = body("hi", system="s", cache_control=MARKER)
    assert DIALECT.inject_after(asked, 0, BLOCK) == body(f"hi\n\n{BLOCK}", system="s", cache_control=MARKER)
    assert DIALECT.inject_system(asked, BLOCK) == {**asked, "system": f"s\n\n{BLOCK}"}


def test_a_part_that_is_never_cached_gets_no_marker() -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "text", "text": ""}]
    injected = DIALECT.inject_after(body(parts, cache_control=MARKER), 0, BLOCK)
    assert [part.get("cache_control") for part in injected["messages"][0]["content"]] == [MARKER, None, None]


def test_the_marker_stays_where_the_block_is_not_last() -> None:
    asked = body("hi", cache_control=MARKER)
    asked["messages"] += [{"role": "assistant", "content": "ho"}, {"role": "user", "content": "and?"}]
    assert DIALECT.inject_after(asked, 0, BLOCK)["cache_control"] == MARKER


def test_there_are_never_more_markers_than_before() -> None:
    marked = [{"type": "text", "text": str(n), "cache_control": MARKER} for n in range(MAX_MARKERS)]
    full = body(marked)
    assert markers(DIALECT.inject_after(full, 0, BLOCK)) == MAX_MARKERS
    # A breakpoint at the top would be the fifth, and its block already has one.
    assert markers(DIALECT.inject_after({**full, "cache_control": MARKER}, 0, BLOCK)) == MAX_MARKERS


def test_a_cached_system_prompt_stays_cached() -> None:
    system = [{"type": "text", "text": "Be terse."}]
    injected = DIALECT.inject_system(body("hi", system=system, cache_control=MARKER), BLOCK)
    assert injected["system"] == [
        {"type": "text", "text": "Be terse.", "cache_control": MARKER},
        {"type": "text", "text": BLOCK},
    ]
    assert injected["cache_control"] == MARKER


def test_the_system_block_is_behind_the_clients_markers() -> None:
    system = [{"type": "text", "text": "Be terse.", "cache_control": MARKER}]
    injected = DIALECT.inject_system(body("hi", system=system), BLOCK)
    assert injected["system"] == [*system, {"type": "text", "text": BLOCK}]


def test_an_empty_system_prompt_leaves_no_empty_block() -> None:
    for empty in ("", None):
        assert DIALECT.inject_system(body("hi", system=empty), BLOCK)["system"] == BLOCK
    assert DIALECT.inject_system(body("hi", system=[]), BLOCK)["system"] == [{"type": "text", "text": BLOCK}]


def test_moving_markers_change_no_hash() -> None:
    plain = DIALECT.read(body([{"type": "text", "text": "hi"}])).user_turns
    marked = DIALECT.read(body([{"type": "text", "text": "hi", "cache_control": MARKER}])).user_turns
    assert plain == marked


def test_client_reminders_are_not_a_question() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nThe todo list is empty.\n</system-reminder>\n"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "found"}
    assert DIALECT.read(body([reminder, {"type": "text", "text": "deploy?"}])).question == "deploy?"
    assert DIALECT.read(body([result, reminder])).is_tool_round
    assert DIALECT.read(body([result, reminder])).question is None


def test_text_next_to_tool_results_is_a_question_and_the_block_follows() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "found"}
    asked = body([result, {"type": "text", "text": "stop, do this"}])
    assert DIALECT.read(asked).question == "stop, do this"
    content = DIALECT.inject_after(asked, 0, BLOCK)["messages"][0]["content"]
    assert [part["type"] for part in content] == ["tool_result", "text", "text"]


def test_the_beginning_of_the_answer_is_not_the_last_turn() -> None:
    asked = body("hi")
    asked["messages"].append({"role": "assistant", "content": "{"})
    assert DIALECT.read(asked).question == "hi"


def test_a_system_message_after_the_user_is_not_the_last_turn() -> None:
    asked = body("hi")
    asked["messages"].append({"role": "system", "content": "Be terse."})
    assert DIALECT.read(asked).question == "hi"


def test_a_paused_server_tool_continues_with_the_same_turn() -> None:
    asked = body("hi")
    asked["messages"].append({"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}]})
    assert DIALECT.read(asked).is_tool_round


def test_client_cache_markers_are_never_changed() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    marked = body([{"type": "text", "text": "hi", "cache_control": hour}], system=["s"], cache_control=MARKER)
    content = DIALECT.inject_after(marked, 0, BLOCK)["messages"][0]["content"]
    assert content[0]["cache_control"] == hour
    assert DIALECT.inject_system(marked, BLOCK)["system"][0] == "s"


def test_a_system_prompt_of_another_shape_is_unchanged() -> None:
    asked = body("hi", system={"text": "Be terse."})
    assert DIALECT.inject_system(asked, BLOCK) is asked


def test_a_marker_is_removed_where_nothing_can_be_cached() -> None:
    parts = [{"type": "text", "text": ""}]
    injected = DIALECT.inject_after(body(parts, cache_control=MARKER), 0, BLOCK)
    assert injected == body([*parts, {"type": "text", "text": BLOCK}])


def test_a_block_follows_only_a_user_turn() -> None:
    answered = {"messages": [{"role": "assistant", "content": "hello"}]}
    assert DIALECT.inject_after(answered, 0, BLOCK) is answered
    odd = body({"neither": "a text nor parts"})
    assert DIALECT.inject_after(odd, 0, BLOCK) is odd


def test_texts_may_stand_bare_among_the_parts() -> None:
    assert DIALECT.read(body("hi", system=["Be terse.", {"type": "text", "text": "Be kind."}])).texts == [
        "Be terse.",
        "Be kind.",
        "hi",
    ]
