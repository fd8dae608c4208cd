"""The turns of a whole conversation, for each client's way to name them."""

from __future__ import annotations

from typing import Any

import pytest

from agentctx.agents.hooks.transcribed_turns import MAX_CALLS, TranscribedTurn, each_turn, last_turn

AT = 1_767_225_600_000


def claude(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "message": {"content": text}, **more}


def copilot(kind: str, text: str, second: int = 0) -> dict[str, Any]:
    return {"type": kind, "data": {"content": text}, "timestamp": f"2026-01-01T00:00:0{second}.000Z"}


def ended(timestamp: int) -> dict[str, Any]:
    return {"type": "hook.start", "data": {"hookType": "agentStop", "input": {"timestamp": timestamp}}}


def said(records: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    turns = [turn for turn in each_turn(records) if turn.prompt or turn.answer]
    return [(turn.name, turn.prompt, turn.answer) for turn in turns]


def test_a_named_turn_lasts_until_the_next_name() -> None:
    records = [claude("user", "a", promptId="p1"), claude("assistant", "A")]
    records += [claude("user", "b", promptId="p2"), claude("user", "b, too", promptId="p2")]
    records += [claude("assistant", "B")]
    assert said(records) == [("p1", "a", "A"), ("p2", "b, too", "B")]


@pytest.mark.parametrize("named", [{}, {"promptId": "p1"}])
def test_a_turn_without_a_name_ends_with_the_next_prompt(named: dict[str, str]) -> None:
    records = [claude("user", "a", **named), claude("assistant", "A"), claude("user", "b")]
    records += [claude("assistant", "B"), claude("user", "c"), claude("assistant", "C")]
    assert said(records) == [(named.get("promptId", ""), "a", "A"), ("", "b", "B"), ("", "c", "C")]


def test_a_turn_that_is_named_at_its_end_gives_its_name_to_no_other() -> None:
    records = [copilot("user.message", "a"), copilot("assistant.message", "A"), ended(17)]
    records += [copilot("user.message", "b", 5), copilot("assistant.message", "B", 6)]
    assert said(records) == [("17", "a", "A"), ("", "b", "B")]
    assert [turn.at for turn in each_turn(records) if turn.prompt] == [AT, AT + 5_000]


@pytest.mark.parametrize(
    "timestamp", ["", "yesterday", 17, None, [], "0001-01-01T00:00:00+14:00", "2026-01-01"]
)
def test_a_time_that_is_none_is_unknown(timestamp: Any) -> None:
    (turn,) = [each for each in each_turn([claude("user", "a", timestamp=timestamp)]) if each.prompt]
    assert turn.at == 0


def test_a_hook_and_an_import_read_the_same_turn() -> None:
    records = [copilot("user.message", "a"), copilot("assistant.message", "A"), ended(17)]
    assert list(each_turn(records))[-1] == last_turn(records, "17")


def test_of_a_long_turn_the_last_calls_are_held() -> None:
    turns = list(each_turn(record for at in range(3 * MAX_CALLS) for record in _call(at)))
    turn: TranscribedTurn = turns[-1]
    assert [turn.calls[0].id, turn.calls[-1].id] == [f"c{2 * MAX_CALLS}", f"c{3 * MAX_CALLS - 1}"]
    assert turn.own_calls == {call.id for call in turn.calls}


def _call(at: int) -> list[dict[str, Any]]:
    started = {"type": "tool_use", "id": f"c{at}", "name": "Bash", "input": {"command": "x"}}
    result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": "y"}
    return [
        {"type": kind, "message": {"content": [part]}}
        for kind, part in (("assistant", started), ("user", result))
    ]
