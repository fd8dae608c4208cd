from pathlib import Path

import pytest

from agentctx.mcp.hook_events import output, remembered
from agentctx.mcp.remembering import RememberedEntry
from agentctx.mcp.transcripts import TranscribedTurn, last_turn, parsed_lines

RECORDED = Path(__file__).parent / "data/transcripts"
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
    return remembered("Stop", "codex", {"session_id": "s", **payload}, turn, namespace="n")


@pytest.mark.parametrize("client", STOPS)
def test_each_client_leaves_its_turn_and_what_fixed_a_tool(client: str) -> None:
    event, payload = STOPS[client]
    entries = remembered(event, client, payload, turn_of(client), namespace="n")
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


def test_an_event_that_is_reported_twice_saves_its_learning_and_summary_once() -> None:
    keys = [[entry.key for entry in stop({}, turn_of("codex"))] for _ in range(2)]
    assert keys[0] == keys[1]
    assert keys[0][0] == "", "a turn may go on, and its answer with it"
    assert len(set(keys[0][1:])) == len(keys[0][1:]) == 2


def test_what_memory_put_into_a_prompt_is_not_remembered() -> None:
    (entry,) = stop({"prompt": f"{BLOCK}\nWhere is the log?", "last_assistant_message": ANSWER})
    assert entry.body["content"] == f"User: Where is the log?\n\nAssistant: {ANSWER}"
    assert entry.body["session"] == "s"


def test_a_short_answer_is_not_worth_remembering() -> None:
    assert stop({"last_assistant_message": "Done."}) == []


def test_claude_code_reports_the_summary_of_a_compaction_itself() -> None:
    payload = {"session_id": "s", "compact_summary": f"The shop moves to Postgres 16.\n{BLOCK}"}
    (entry,) = remembered("PostCompact", "claude-code", payload, EMPTY, namespace="n")
    assert entry.body["collection"] == "reflection"
    assert entry.body["content"] == "The shop moves to Postgres 16."
    assert output("PostCompact", "claude-code", "") == {}


def test_what_an_earlier_turn_learned_is_not_saved_again() -> None:
    said = [{"prompt": "Go on."}, {"answer": "Done."}]
    lines = (RECORDED / "codex.jsonl").read_text("utf-8").splitlines()
    assert stop({}, last_turn([*parsed_lines(lines), *said])) == []


@pytest.mark.parametrize("summary", [None, "", BLOCK, 5])
def test_a_compaction_without_a_summary_leaves_nothing(summary: object) -> None:
    payload = {"session_id": "s", "compact_summary": summary}
    assert remembered("PostCompact", "claude-code", payload, EMPTY, namespace="n") == []
