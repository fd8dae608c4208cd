import json
from typing import Any

import pytest

from agentctx.agents.mcp.asking import (
    ANSWER,
    MAX_SHOWN_CHARS,
    Form,
    FormAnswer,
    answer_to,
    can_show_forms,
    opened,
    question,
    shown,
)

FORM = Form("e 1", "Forget it?", {"keep": "Keep it", "forget": "Forget it"}, progress=[["f"], {"kept": 1}])
NO_DECISION = FormAnswer(why="The user made no decision, or the client showed no form.")


@pytest.mark.parametrize(
    ("capabilities", "shows"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({"sampling": {}}, False),
        ("elicitation", False),
        (None, False),
    ],
)
def test_only_a_client_that_shows_forms_is_sent_some(capabilities: object, shows: bool) -> None:
    assert can_show_forms(capabilities) is shows


def test_a_form_has_a_choice_and_the_first_is_harmless() -> None:
    schema = FORM.params["requestedSchema"]
    assert schema["required"] == ["decision"]
    decision = schema["properties"]["decision"]
    assert (decision["enum"], decision["enumNames"]) == (["keep", "forget"], ["Keep it", "Forget it"])
    assert decision["default"] == "keep"
    editable = FORM._replace(text={"type": "string"}).params["requestedSchema"]
    assert (editable["properties"]["text"], editable["required"]) == ({"type": "string"}, ["decision"])


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"action": "accept", "content": {"decision": "forget"}}, FormAnswer("forget")),
        ({"action": "accept", "content": {"decision": "keep", "text": "t"}}, FormAnswer("keep", "t")),
        ({"action": "accept", "content": {"decision": "forget", "text": 5}}, FormAnswer("forget")),
        ({"action": "accept", "content": {"decision": "always"}}, NO_DECISION),
        ({"action": "accept", "content": {"decision": ["forget"]}}, NO_DECISION),
        ({"action": "accept", "content": {"decision": True}}, NO_DECISION),
        ({"action": "accept", "content": {}}, NO_DECISION),
        ({"action": "accept"}, NO_DECISION),
        ({"action": "accept", "content": [["decision", "forget"]]}, NO_DECISION),
        ({"action": "ACCEPT", "content": {"decision": "forget"}}, NO_DECISION),
        ({"action": "cancel", "content": {"decision": "forget"}}, NO_DECISION),
        ({"content": {"decision": "forget"}}, NO_DECISION),
        ("accept", NO_DECISION),
        (None, NO_DECISION),
        (
            {"action": "decline", "content": {"decision": "forget"}},
            FormAnswer(why="The user refused, or the client showed no form."),
        ),
    ],
)
def test_only_an_accepted_choice_of_the_form_is_one(result: object, answer: FormAnswer) -> None:
    assert answer_to(FORM, result) == answer


def test_a_text_is_shown_as_what_it_is() -> None:
    assert shown("a\n\n b\tc") == "a b c"
    assert shown("a\x1b[2J\u202eb\u200bc") == "a\ufffd[2J\ufffdb\ufffdc"
    assert shown("x" * 20, 10) == "x" * 9 + "…"
    assert len(shown("x" * 9_999)) == MAX_SHOWN_CHARS


def test_a_state_names_its_form_and_the_progress() -> None:
    asked = question(FORM, b"key")
    assert asked["inputRequests"] == {ANSWER: {"method": "elicitation/create", "params": FORM.params}}
    assert opened(asked["requestState"], b"key") == (["e 1", FORM.params], [["f"], {"kept": 1}])


def test_a_forged_state_counts_as_none() -> None:
    state: str = question(FORM, b"key")["requestState"]
    forged: list[Any] = [
        "",
        "x",
        state[:64],
        state[1:],
        "0" * 64 + state[64:],
        state + " ",
        {"a": 1},
        None,
        5,
    ]
    forged += [
        state.replace("e 1", "e 2"),
        "\ud800" + state,
        json.dumps([["e 1", FORM.params], None]),
        "é" * 70,
    ]
    assert [each for each in forged if opened(each, b"key") != (None, None)] == []
    assert opened(state, b"another key") == (None, None)
