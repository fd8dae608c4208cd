"""Instructions, items, and conversations that the API keeps."""

from __future__ import annotations

from typing import Any

from agentctx.llm.dialects.openai_responses import OpenAIResponses

DIALECT = OpenAIResponses()
USER = {"role": "user", "content": "hi"}


def test_the_block_ends_the_clients_developer_message() -> None:
    texts = [{"type": "input_text", "text": "a"}]
    for content, expected in (("a", "a\n\nb"), (texts, [*texts, {"type": "input_text", "text": "b"}])):
        body = {"input": [{"role": "developer", "content": content}, USER]}
        assert DIALECT.inject_system(body, "b") == {
            "input": [{"role": "developer", "content": expected}, USER]
        }
    odd = {"input": [{"role": "developer", "content": None}, USER]}
    assert DIALECT.inject_system(odd, "b") is odd


def test_a_string_as_input_stays_one() -> None:
    assert DIALECT.inject_after({"input": "hi"}, 0, "block") == {"input": "hi\n\nblock"}
    body = {"input": "hi"}
    assert DIALECT.inject_after(body, 1, "block") is body


def test_with_stored_input_the_block_is_an_unstored_instruction() -> None:
    body = {"previous_response_id": "r1", "input": [{"role": "developer", "content": "Be terse."}, USER]}
    assert DIALECT.inject_system(body, "block") == {**body, "instructions": "block"}


def test_instructions_that_are_not_text_are_left_unchanged() -> None:
    body = {"input": "hi", "instructions": [{"type": "input_text", "text": "Be terse."}]}
    assert DIALECT.inject_system(body, "block") is body


def test_a_chain_of_replies_continues_under_the_key_of_the_reply() -> None:
    reply = {"id": "r1", "object": "response"}
    key = DIALECT.reply_key({"input": "hi"}, reply)
    assert key == DIALECT.conversation_key({"previous_response_id": "r1", "input": "and?"})
    assert key == DIALECT.reply_key({"input": "hi"}, {"type": "response.created", "response": reply})


def test_other_events_name_no_reply() -> None:
    events: tuple[Any, ...] = (
        {},
        {"type": "response.output_text.delta", "delta": "x"},
        {"id": "msg_1"},
        None,
        [],
    )
    for event in events:
        assert DIALECT.reply_key({"input": "hi"}, event) is None


def test_a_conversation_of_the_api_is_the_key() -> None:
    by_name: dict[str, Any] = {"conversation": "c1", "input": "hi"}
    by_object = {"conversation": {"id": "c1"}, "previous_response_id": "r1", "input": "ho"}
    assert DIALECT.conversation_key(by_name) == DIALECT.conversation_key(by_object) == "conversation:c1"
    assert DIALECT.reply_key(by_name, {"id": "r1", "object": "response"}) is None


def test_results_of_any_kind_of_tool_are_a_tool_round() -> None:
    for kind in ("function_call_output", "custom_tool_call_output", "computer_call_output"):
        assert DIALECT.read({"input": [{"type": kind, "output": "found"}]}).is_tool_round


def test_references_are_passed_over() -> None:
    assert DIALECT.read({"input": [USER, {"type": "item_reference", "id": "m1"}]}).question is None
    assert DIALECT.read({"input": [{"type": "item_reference", "id": "m1"}, USER]}).question == "hi"
