"""The clients' transcripts, recorded from the real programs and shortened; Cursor's follows its docs."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentctx.agents.hooks.transcribed_turns import TranscribedTurn, last_turn
from agentctx.agents.hooks.transcripts import parsed_lines

RECORDED = Path(__file__).parents[1] / "data/transcripts"
PROMPT = "Which port does the proxy use?"
ANSWER = "The proxy listens on 8443, because 443 is taken."
CLIENTS = ["claude-code", "codex", "copilot", "cursor", "gemini", "opencode", "qwen"]


def recorded(client: str, *, lines: int | None = None) -> TranscribedTurn:
    return last_turn(parsed_lines((RECORDED / f"{client}.jsonl").read_text("utf-8").splitlines()[:lines]))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_last_turn_is_found_in_each_clients_transcript(client: str) -> None:
    turn = recorded(client)
    assert (turn.prompt, turn.answer) == (PROMPT, ANSWER)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "cursor"])
def test_the_outcomes_of_its_tools_are_found(client: str) -> None:
    turn = recorded(client)
    assert [(call.target, call.error is None) for call in turn.calls] == [
        ("psql shop", False),
        ("psql -h db-2 shop", True),
    ]
    assert str(turn.calls[0].error).rstrip().endswith("psql: error: connection refused")
    assert turn.own_calls == {"call_bad", "call_good"}


@pytest.mark.parametrize("client", ["codex", "copilot", "opencode"])
def test_the_summary_of_a_compaction_is_found(client: str) -> None:
    assert [each.text for each in recorded(client).summaries] == ["The shop moves to Postgres 16."]


def test_a_turn_excludes_what_an_earlier_turn_saved() -> None:
    said: list[dict[str, Any]] = [
        {"prompt": "a"},
        {"summary": "s"},
        {"call": {"id": "c", "name": "bash"}},
        {"answer": "b"},
    ]
    assert last_turn(said).summaries == (("s", 0),)
    turn = last_turn([*said, {"prompt": "c"}, {"answer": "d"}])
    assert (turn.summaries, turn.own_calls, len(turn.calls)) == ((), frozenset(), 1)


def test_an_unanswered_prompt_has_no_answer_of_the_turn_before() -> None:
    turn = recorded("copilot", lines=6)
    assert (turn.prompt, turn.answer) == (PROMPT, "")


def test_lines_that_are_cut_off_or_strange_are_left_out() -> None:
    strange = ['{"type": "us', "[1]", "{}", '{"type": "user", "message": 3}', '{"type": 4, "payload": [5]}']
    strange += [
        '{"type": "event_msg", "payload": {"item": 1}}',
        '{"type": "gemini", "toolCalls": [{"result": 3}]}',
    ]
    call = {"type": "function_call", "arguments": "{", "call_id": "c"}
    strange += [json.dumps({"type": "response_item", "payload": call})]
    strange += [json.dumps({"data": {"content": [1]}, "type": "user.message"}), "[" * 5_000]
    turn = last_turn(parsed_lines(strange))
    assert (turn.prompt, turn.answer, turn.summaries) == ("", "", ())


def test_codex_before_0_169_names_its_prompts_otherwise() -> None:
    payload = {"type": "user_message", "message": PROMPT}
    assert last_turn([{"type": "event_msg", "payload": payload}]).prompt == PROMPT


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("psql shop", "psql shop"),
        (["bash", "-lc", "psql shop"], "psql shop"),
        (["psql", "shop"], "psql shop"),
    ],
)
def test_a_command_may_be_a_list_of_words(command: object, target: str) -> None:
    begun = {
        "type": "function_call",
        "name": "shell",
        "arguments": json.dumps({"command": command}),
        "call_id": "c",
    }
    ended = {"type": "function_call_output", "call_id": "c", "output": "Exit code: 1\nOutput:\nno such file"}
    (call,) = last_turn({"type": "response_item", "payload": each} for each in (begun, ended)).calls
    assert (call.target, call.error is None) == (target, False)
