"""The blocks and their places, over whole conversations, in every dialect."""

from __future__ import annotations

import json
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.registry import DIALECTS
from agentctx.llm.injection import (
    MAX_QUESTION_CHARS,
    InjectionRequest,
    ParsedCall,
    shortened,
    texts_present,
    to_retrieve,
)
from tests.llm.dialects.samples import FIRST, SAMPLES, SECOND, SYSTEM, Samples

ONE, TWO = "block one", "block two"
POSITIONS = ("system", "tail")
Position = Literal["system", "tail"]


@pytest.fixture(params=sorted(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@pytest.fixture
def samples(dialect: Dialect) -> Samples:
    return SAMPLES[dialect.name]


def injected(
    dialect: Dialect,
    body: Any,
    position: str,
    given: Conversation | None = None,
    new: str | None = None,
) -> Any:
    call = ParsedCall(dialect, body)
    call.read()
    return call.inject(cast("Position", position), given or Conversation(), new)


def first_given(dialect: Dialect, samples: Samples) -> Conversation:
    hash_ = asked_by(dialect, samples.asked()).turn
    assert hash_ is not None
    return Conversation({hash_: ONE}, ONE)


@pytest.mark.parametrize("position", POSITIONS)
def test_without_any_block_the_very_same_body_comes_back(
    dialect: Dialect, samples: Samples, position: str
) -> None:
    for make in (samples.asked, samples.tool_round, samples.continued, samples.picture_alone):
        for new in (None, ""):
            body = make()
            assert injected(dialect, body, position, new=new) is body


def test_at_the_tail_earlier_blocks_stand_where_they_stood(dialect: Dialect, samples: Samples) -> None:
    body = injected(dialect, samples.continued(), "tail", first_given(dialect, samples), TWO)
    assert samples.user_texts(body) == [FIRST, ONE, SECOND, TWO]


def test_at_the_tail_a_call_begins_with_the_bytes_of_the_call_before(
    dialect: Dialect, samples: Samples
) -> None:
    conversation = first_given(dialect, samples)
    first = dialect.items(injected(dialect, samples.asked(), "tail", new=ONE))
    tools = dialect.items(injected(dialect, samples.tool_round(), "tail", conversation))
    second = dialect.items(injected(dialect, samples.continued(), "tail", conversation, TWO))
    assert json.dumps(tools)[:-1].startswith(json.dumps(first)[:-1])
    assert json.dumps(second)[:-1].startswith(json.dumps(tools)[:-1])


def test_the_system_prompt_has_only_the_present_block(dialect: Dialect, samples: Samples) -> None:
    body = injected(dialect, samples.continued(), "system", first_given(dialect, samples), TWO)
    assert samples.system_of(body) == [SYSTEM, TWO]
    assert samples.user_texts(body) == [FIRST, SECOND]


def test_a_tool_round_has_the_block_of_its_question_again(dialect: Dialect, samples: Samples) -> None:
    given = first_given(dialect, samples)
    assert samples.system_of(injected(dialect, samples.tool_round(), "system", given)) == [SYSTEM, ONE]
    assert samples.user_texts(injected(dialect, samples.tool_round(), "tail", given)) == [FIRST, ONE]


def asked_by(dialect: Dialect, body: dict[str, Any]) -> InjectionRequest:
    return ParsedCall(dialect, body).read()


def test_a_tool_round_repeats_an_unanswered_question(dialect: Dialect, samples: Samples) -> None:
    asked = asked_by(dialect, samples.tool_round())
    assert asked.turn == asked_by(dialect, samples.asked()).turn
    assert to_retrieve(asked, Conversation()) == FIRST
    assert to_retrieve(asked, Conversation(answered={"another turn"})) == FIRST
    assert to_retrieve(asked, Conversation(answered={asked.turn or ""})) is None
    assert to_retrieve(asked_by(dialect, samples.picture_alone()), Conversation()) is None


def test_a_question_sent_again_is_asked_again(dialect: Dialect, samples: Samples) -> None:
    asked = asked_by(dialect, samples.asked())
    assert to_retrieve(asked, Conversation(answered={asked.turn or ""})) == FIRST


@pytest.mark.parametrize("position", POSITIONS)
def test_tool_results_do_not_change_the_present_passages(
    dialect: Dialect, samples: Samples, position: Position
) -> None:
    present = [
        texts_present(asked_by(dialect, body), position, Conversation())
        for body in (samples.asked(), samples.tool_round())
    ]
    assert present[0] == present[1] == dialect.read(samples.asked()).texts


def test_a_picture_gets_no_block_of_another_turn(dialect: Dialect, samples: Samples) -> None:
    body = samples.picture_alone()
    assert injected(dialect, body, "system", Conversation({"x": ONE}, ONE)) is body


@pytest.mark.parametrize("position", POSITIONS)
def test_a_question_sent_again_keeps_its_block_until_there_is_another(
    dialect: Dialect, samples: Samples, position: str
) -> None:
    given = first_given(dialect, samples)
    texts = samples.system_of if position == "system" else samples.user_texts
    begin = SYSTEM if position == "system" else FIRST
    assert texts(injected(dialect, samples.asked(), position, given)) == [begin, ONE]
    assert texts(injected(dialect, samples.asked(), position, given, TWO)) == [begin, TWO]
    assert texts(injected(dialect, samples.asked(), position, given, "")) == [begin]


def test_a_tool_round_whose_question_the_api_keeps_has_the_block_given_last() -> None:
    responses = DIALECTS["openai_responses"]
    body = {"previous_response_id": "r", "input": [{"type": "function_call_output", "output": "found"}]}
    with_block = injected(responses, body, "system", Conversation({"t": ONE}, ONE))
    assert with_block == {**body, "instructions": ONE}
    assert injected(responses, body, "tail", Conversation({"t": ONE}, ONE)) is body


def test_blocks_that_are_given_again_are_present(dialect: Dialect, samples: Samples) -> None:
    given, body = first_given(dialect, samples), samples.continued()
    texts, asked = dialect.read(body).texts, asked_by(dialect, body)
    assert texts_present(asked, "tail", given) == [*texts, ONE]
    assert texts_present(asked, "system", given) == texts
    assert ONE not in texts_present(asked_by(dialect, samples.asked()), "tail", given)


def test_a_picture_after_a_question_asks_nothing() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    answer = {"role": "assistant", "content": "It is."}
    turns = [{"role": "user", "content": "Is it?"}, answer, {"role": "user", "content": [picture]}]
    asked = asked_by(DIALECTS["openai_chat"], {"messages": turns})
    assert (asked.question, asked.texts) == (None, ())
    assert asked.turn == asked_by(DIALECTS["openai_chat"], {"messages": turns[:1]}).turn


@given(st.text(max_size=30), st.integers(10, 20))
def test_a_long_question_keeps_its_beginning_and_end(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    if len(text) > most:
        assert short[:3] == text[:3]
        assert short[-3:] == text[-3:]
    else:
        assert short == text


def test_a_lone_surrogate_is_accepted() -> None:
    assert shortened("a\ud800b") == "a?b"


def test_a_pasted_log_is_shortened() -> None:
    body = {"messages": [{"role": "user", "content": "why? " + "x" * 99_999}]}
    question = asked_by(DIALECTS["openai_chat"], body).question
    assert question is not None
    assert len(question) <= MAX_QUESTION_CHARS
