"""The duties of every dialect, on one conversation in its API's format and on arbitrary JSON."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.registry import DIALECTS
from tests.amount import examples
from tests.llm.dialects.samples import ANSWER, FIRST, RESULT, SAMPLES, SECOND, SYSTEM, Samples

BLOCK = "## Semantic Context (RAG)\n\n<memory 0>\n> it is make rollback\n</memory 0>"
NAMES = sorted(DIALECTS)


@pytest.fixture(params=NAMES)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@pytest.fixture
def samples(dialect: Dialect) -> Samples:
    return SAMPLES[dialect.name]


def last_turn(dialect: Dialect, body: Any) -> int:
    return dialect.read(body).user_turns[-1].index


def test_the_question_is_what_the_user_said_last(dialect: Dialect, samples: Samples) -> None:
    assert dialect.read(samples.asked()).question == FIRST
    assert dialect.read(samples.asked_in_parts()).question == FIRST
    assert dialect.read(samples.with_picture()).question == FIRST
    assert dialect.read(samples.continued()).question == SECOND


def test_a_tool_round_asks_nothing(dialect: Dialect, samples: Samples) -> None:
    assert dialect.read(samples.tool_round()).question is None
    assert dialect.read(samples.tool_round()).is_tool_round
    for body in (samples.asked(), samples.continued(), samples.picture_alone()):
        assert not dialect.read(body).is_tool_round


def test_a_picture_without_text_is_no_question(dialect: Dialect, samples: Samples) -> None:
    assert dialect.read(samples.picture_alone()).question is None


def test_all_texts_of_the_conversation_are_present(dialect: Dialect, samples: Samples) -> None:
    texts = dialect.read(samples.continued()).texts
    assert [text for text in texts if text] == [SYSTEM, FIRST, RESULT, RESULT, ANSWER, SECOND]


def test_the_system_block_is_the_end_of_the_system_prompt(dialect: Dialect, samples: Samples) -> None:
    for make in (samples.asked, samples.asked_in_parts, samples.tool_round, samples.continued):
        injected = dialect.inject_system(make(), BLOCK)
        assert samples.system_of(injected) == [SYSTEM, BLOCK]
        assert samples.user_texts(injected) == samples.user_texts(make())


def test_without_a_system_prompt_the_block_is_one(dialect: Dialect, samples: Samples) -> None:
    injected = dialect.inject_system(samples.unprompted(), BLOCK)
    assert "\n\n".join(samples.system_of(injected)) == BLOCK
    assert dialect.read(injected).question == FIRST


def test_the_tail_block_ends_the_user_turn(dialect: Dialect, samples: Samples) -> None:
    for make, expected in (
        (samples.asked, [FIRST, BLOCK]),
        (samples.asked_in_parts, [FIRST, BLOCK]),
        (samples.with_picture, [FIRST, BLOCK]),
        (samples.continued, [FIRST, SECOND, BLOCK]),
    ):
        body = make()
        injected = dialect.inject_after(body, last_turn(dialect, body), BLOCK)
        assert samples.user_texts(injected) == expected
        assert samples.system_of(injected) == samples.system_of(make())


def test_nothing_else_changes(dialect: Dialect, samples: Samples) -> None:
    body = samples.with_picture()
    for injected in (
        dialect.inject_system(body, BLOCK),
        dialect.inject_after(body, last_turn(dialect, body), BLOCK),
    ):
        assert body == samples.with_picture(), "the argument was changed"
        changed = [name for name in injected if injected[name] is not body.get(name)]
        assert len(changed) == 1
        assert set(injected) == set(body)


def test_an_empty_block_changes_nothing(dialect: Dialect, samples: Samples) -> None:
    body = samples.asked()
    assert dialect.inject_system(body, "") is body
    assert dialect.inject_after(body, last_turn(dialect, body), "") is body


def test_an_invalid_position_changes_nothing(dialect: Dialect, samples: Samples) -> None:
    body = samples.tool_round()
    for index in (-1, 99):
        assert dialect.inject_after(body, index, BLOCK) is body


def test_a_turn_keeps_its_hash_while_the_conversation_continues(dialect: Dialect, samples: Samples) -> None:
    (first,) = dialect.read(samples.asked()).user_turns
    (again,) = dialect.read(samples.tool_round()).user_turns
    later, second = dialect.read(samples.continued()).user_turns
    in_parts = dialect.read(samples.asked_in_parts()).user_turns[0]
    assert first.hash == again.hash == later.hash == in_parts.hash
    assert second.hash != first.hash


def test_equal_turns_of_one_conversation_have_distinct_hashes(dialect: Dialect, samples: Samples) -> None:
    body = samples.asked()
    name = next(name for name in ("messages", "contents", "input") if name in body)
    if isinstance(body[name], str):
        body[name] = [{"role": "user", "content": body[name]}]
    body[name] = [*body[name], body[name][-1]]
    first, second = dialect.read(body).user_turns
    assert first.hash != second.hash


def test_a_conversation_has_the_same_key_from_its_first_call(dialect: Dialect, samples: Samples) -> None:
    keys = {
        dialect.conversation_key(make())
        for make in (samples.asked, samples.asked_in_parts, samples.tool_round, samples.continued)
    }
    assert len(keys) == 1
    assert None not in keys
    assert dialect.conversation_key(samples.unprompted()) not in keys


def test_a_body_without_turns_is_unchanged(dialect: Dialect) -> None:
    bodies: tuple[Any, ...] = (
        {},
        {"messages": []},
        {"messages": None},
        {"contents": "hi"},
        {"input": 7},
        {"system": "s"},
    )
    for body in bodies:
        assert dialect.read(body).question is None
        assert not dialect.read(body).is_tool_round
        assert dialect.read(body).user_turns == []
        assert dialect.conversation_key(body) is None
        assert dialect.inject_system(body, BLOCK) is body
        assert dialect.inject_after(body, 0, BLOCK) is body


WORDS = st.sampled_from(
    [
        *(
            "messages",
            "contents",
            "input",
            "role",
            "content",
            "parts",
            "text",
            "type",
            "system",
            "instructions",
        ),
        *(
            "systemInstruction",
            "tool_calls",
            "cache_control",
            "functionResponse",
            "output",
            "user",
            "assistant",
        ),
        *(
            "developer",
            "tool",
            "tool_result",
            "tool_use",
            "input_text",
            "function_call_output",
            "model",
            "id",
        ),
        *("previous_response_id", "conversation", "prompt_cache_key", "response", "object"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=4)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)
PART = st.fixed_dictionaries(
    {}, optional={"type": WORDS, "text": JSON, "content": JSON, "cache_control": JSON, "functionCall": JSON}
)
MESSAGE = st.fixed_dictionaries(
    {"role": WORDS | JSON},
    optional={
        "content": st.lists(PART | JSON, max_size=3) | JSON,
        "parts": st.lists(PART | JSON, max_size=3) | JSON,
        "type": WORDS | JSON,
        "tool_calls": JSON,
        "output": JSON,
    },
)
MESSAGES = st.lists(MESSAGE | JSON, max_size=5)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "messages": MESSAGES | JSON,
        "contents": MESSAGES | JSON,
        "input": MESSAGES | JSON,
        "system": st.lists(PART | JSON, max_size=3) | JSON,
        "systemInstruction": MESSAGE | JSON,
        "instructions": JSON,
        "cache_control": JSON,
        "tools": JSON,
        "previous_response_id": JSON,
        "conversation": JSON,
    },
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60), deadline=None)
@given(body=BODY, index=st.integers(-2, 6), reply=JSON)
def test_any_json_is_read_without_an_exception_and_rebuilt_into_json(
    name: str, body: dict[str, Any], index: int, reply: Any
) -> None:
    dialect = DIALECTS[name]
    before = deepcopy(body)
    question = dialect.read(body).question
    assert question is None or question.strip()
    assert question is None or not dialect.read(body).is_tool_round
    assert all(isinstance(text, str) for text in dialect.read(body).texts)
    dialect.conversation_key(body)
    dialect.reply_key(body, reply)
    turns = dialect.read(body).user_turns
    assert len({turn.hash for turn in turns}) == len(turns)
    for injected in (dialect.inject_system(body, BLOCK), dialect.inject_after(body, index, BLOCK)):
        assert injected is body or json.dumps(injected).count("## Semantic Context (RAG)") == 1
    for turn in turns:
        assert dialect.inject_after(body, turn.index, BLOCK) is not body, "a place that was promised is none"
    assert json.dumps(body) == json.dumps(before), "the argument was changed"


def test_deep_nesting_is_accepted(dialect: Dialect, samples: Samples) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    body = {**samples.asked(), "metadata": deep}
    name = next(name for name in ("messages", "contents", "input") if name in body)
    body[name] = [{"role": "user", "content": [deep, {"type": "text", "text": FIRST}], "parts": [deep]}]
    assert len(dialect.read(body).user_turns) <= 1
    dialect.inject_system(body, BLOCK)
