from pathlib import Path

import pytest

from agentctx.agents.hooks.hook_events import output
from agentctx.agents.hooks.remembered_entries import EntryBuilder, RememberedEntry, is_written, turn_name
from agentctx.agents.hooks.transcribed_turns import TranscribedTurn, last_turn
from agentctx.agents.hooks.transcripts import parsed_lines

RECORDED = Path(__file__).parents[1] / "data/transcripts"
BLOCK = "## Semantic Context (RAG)\n\nPassages …\n\n<memory 5d41402abc4b>\n> old\n</memory 5d41402abc4b>"
ANSWER = "The log of the service is in /var/log/shop/service.log."
EMPTY = last_turn([])
STOPS = {
    "claude-code": ("Stop", {"session_id": "s"}),
    "codex": ("Stop", {"session_id": "s"}),
    "gemini": ("AfterAgent", {"session_id": "s", "prompt_response": "The proxy The  proxy  listens"}),
    "copilot": ("agentStop", {"sessionId": "s"}),
    "cursor": ("afterAgentResponse", {"conversation_id": "s"}),
    "opencode": ("session.idle", {"session_id": "s"}),
}


def turn_of(client: str) -> TranscribedTurn:
    return last_turn(parsed_lines((RECORDED / f"{client}.jsonl").read_text("utf-8").splitlines()))


def stop(payload: dict[str, object], turn: TranscribedTurn = EMPTY) -> list[RememberedEntry]:
    return list(EntryBuilder("codex", "s", "n").turn(payload, turn))


@pytest.mark.parametrize("client", STOPS)
def test_each_client_saves_its_turn_and_tool_fixes(client: str) -> None:
    event, payload = STOPS[client]
    entries = EntryBuilder(client, "s", "n").turn(payload, turn_of(client))
    found = {entry.body["collection"]: entry.body for entry in entries}
    assert found["observation"]["content"] == (
        "User: Which port does the proxy use?\n\nAssistant: The proxy listens on 8443, because 443 is taken."
    )
    if client != "cursor":  # its transcript has no calls of tools
        assert found["learning"]["error_pattern"] == "psql: error: connection refused"
        assert found["learning"]["fix"] == "`psql shop` failed; this worked: `psql -h db-2 shop`"
    if client in {"codex", "copilot", "opencode"}:
        assert found["reflection"]["content"] == "The shop moves to Postgres 16."
    for body in found.values():
        assert (body["origin"], body["agent"], body["namespace"]) == ("capture", client, "n")
    assert output(event, client, "") == {}


def test_a_repeated_event_saves_once() -> None:
    keys = [[entry.key for entry in stop({}, turn_of("codex"))] for _ in range(2)]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 3


def test_a_resumed_turn_is_saved_with_each_answer() -> None:
    turn = turn_of("codex")
    keys = {stop({"last_assistant_message": text}, turn)[0].key for text in (ANSWER, turn.answer)}
    assert len(keys) == 2


def test_injected_text_is_not_saved_again() -> None:
    (entry,) = stop({"prompt": f"{BLOCK}\nWhere is the log?", "last_assistant_message": ANSWER})
    assert entry.body["content"] == f"User: Where is the log?\n\nAssistant: {ANSWER}"
    assert entry.body["session"] == "s"


def test_a_short_answer_is_not_worth_remembering() -> None:
    assert stop({"last_assistant_message": "Done."}) == []


def test_claude_code_reports_the_summary_of_a_compaction_itself() -> None:
    payload = {"session_id": "s", "compact_summary": f"The shop moves to Postgres 16.\n{BLOCK}"}
    (entry,) = EntryBuilder("claude-code", "s", "n").summary(payload["compact_summary"])
    assert entry.body["collection"] == "reflection"
    assert entry.body["content"] == "The shop moves to Postgres 16."
    assert output("PostCompact", "claude-code", "") == {}


def test_learnings_of_earlier_turns_are_not_saved_again() -> None:
    said = [{"prompt": "Go on."}, {"answer": "Done."}]
    lines = (RECORDED / "codex.jsonl").read_text("utf-8").splitlines()
    assert stop({}, last_turn([*parsed_lines(lines), *said])) == []


@pytest.mark.parametrize("summary", [None, "", BLOCK, 5])
def test_a_compaction_without_a_summary_leaves_nothing(summary: object) -> None:
    assert list(EntryBuilder("claude-code", "s", "n").summary(summary)) == []


@pytest.mark.parametrize(
    ("client", "event", "payload", "name"),
    [
        ("claude", "Stop", {"prompt_id": "p"}, "p"),
        ("codex", "Stop", {"turn_id": "t"}, "t"),
        ("copilot", "agentStop", {"timestamp": 17}, "17"),
        ("gemini", "AfterAgent", {"timestamp": "2026-11-23T12:00:00Z"}, ""),
        ("qwen", "Stop", {"prompt_id": "p"}, ""),
        ("claude", "Stop", {"prompt_id": ["p"]}, ""),
        ("claude", "Stop", {"prompt_id": ""}, ""),
    ],
)
def test_an_event_names_the_turn_that_it_ends(
    client: str, event: str, payload: dict[str, object], name: str
) -> None:
    assert turn_name(client, event, payload) == name


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("", {}, True),
        ("", {"last_assistant_message": "First.\n\nIt is 8443."}, True),
        ("", {"last_assistant_message": "It is 9000."}, False),
        ("", {"prompt": "Which port?"}, True),
        ("", {"prompt": "Which host?"}, False),
        ("p", {}, False),
    ],
)
def test_a_turn_is_the_events_if_both_say_the_same(
    name: str, payload: dict[str, object], expected: bool
) -> None:
    turn = last_turn([{"prompt": "Which port?"}, {"answer": "It is 8443."}])
    assert is_written(turn, name, payload) is expected
