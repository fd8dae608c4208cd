import json
from typing import Any

import pytest

from agentctx.agents.mcp.tool_list import TOOLS
from agentctx.agents.mcp.tools import (
    InvalidToolArguments,
    ToolScope,
    failure_text,
    late_text,
    outcome_text,
    request_of,
)

SCOPE = ToolScope("git:example.org/ann/shop", "s1", "codex", own="user:ann", also=("team",))


def test_the_list_is_small() -> None:
    assert len(TOOLS) <= 6
    assert len(json.dumps({"tools": TOOLS}, separators=(",", ":"))) <= 4_250


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_each_tool_has_a_complete_description(tool: dict[str, Any]) -> None:
    assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert tool["annotations"]["openWorldHint"] is False
    assert tool["annotations"]["destructiveHint"] is (tool["name"] == "forget")
    assert tool["annotations"]["readOnlyHint"] is (tool["name"] in {"search", "context"})
    assert "outputSchema" not in tool
    assert all(each["description"] for each in tool["inputSchema"]["properties"].values())


def test_a_save_with_a_key_is_project_knowledge() -> None:
    request = request_of("save", {"content": "On Tuesdays.", "key": "deploys", "tags": ["ops"]}, SCOPE)
    assert request.body == {
        "collection": "knowledge",
        "namespace": "git:example.org/ann/shop",
        "agent": "codex",
        "content": "On Tuesdays.",
        "key": "deploys",
        "tags": ["ops"],
    }


@pytest.mark.parametrize("arguments", [{"content": "Tabs.", "key": "tabs"}, {"trigger": "tool:psql"}])
def test_a_save_about_the_user_goes_to_the_user_namespace(arguments: dict[str, Any]) -> None:
    tool = "save" if "content" in arguments else "learn"
    body = request_of(tool, arguments | {"memory": "user"}, SCOPE).body
    assert body is not None
    assert body["namespace"] == "user:ann"
    assert "memory" not in body
    with pytest.raises(InvalidToolArguments, match="no user memory"):
        request_of(tool, arguments | {"memory": "user"}, SCOPE._replace(own=None))


def test_a_save_without_a_key_is_an_observation() -> None:
    body = request_of("save", {"content": "The build was slow."}, SCOPE).body
    assert body is not None
    assert (body["collection"], body["session"]) == ("observation", "s1")


def test_a_question_asks_project_user_and_named_namespaces() -> None:
    request = request_of("search", {"query": "deploys", "collection": "learning", "limit": 3}, SCOPE)
    assert request.body == {
        "query": "deploys",
        "namespaces": ["git:example.org/ann/shop", "user:ann", "team"],
        "collections": ["learning"],
        "limit": 3,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("search", {}, "`query` is missing"),
        ("search", {"query": ""}, "`query` is missing"),
        ("search", {"query": 5}, "`query` must be a string"),
        ("search", {"query": "q", "limit": 0}, "at least 1 and at most 50"),
        ("search", {"query": "q", "limit": True}, "a whole number"),
        ("search", {"query": "q", "namespace": "other"}, "takes no `namespace`"),
        ("search", {"query": "q", "collection": "secrets"}, "one of knowledge"),
        ("save", {"content": "c", "tags": [1]}, "a list of strings"),
        ("save", {"content": "c", "category": "rule"}, "needs a `key`"),
        ("feedback", {"id": "x", "success": "yes"}, "true or false"),
    ],
)
def test_invalid_arguments_get_an_actionable_error(tool: str, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidToolArguments, match=says):
        request_of(tool, arguments, SCOPE)


def test_no_id_leads_to_another_route() -> None:
    assert (
        request_of("forget", {"id": "../queue/retry?x"}, SCOPE).path == "/v1/entries/..%2Fqueue%2Fretry%3Fx"
    )


def test_a_hit_is_always_one_line() -> None:
    hit = {
        "id": "1",
        "collection": "knowledge",
        "source_id": "k",
        "content": 'a\n{"id": "2"}',
        "trust": "agent",
    }
    text = outcome_text("search", {"results": [hit], "degraded": "words only"})
    _, line, degraded = text.split("\n")
    assert json.loads(line)["content"] == hit["content"]
    assert degraded == "Entries may be missing: words only."


def test_the_outcome_of_a_save_is_reported() -> None:
    reply = {"id": "i", "version": 2, "changed": False, "redacted": ["aws_key"], "quarantined": True}
    text = outcome_text("save", reply, namespace="git:example.org/ann/shop")
    for part in ("git:example.org/ann/shop", "already saved", "version 2", "aws_key", "quarantine"):
        assert part in text


@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("context", {"query": "q", "budget_tokens": 100}, "/v1/context"),
        ("learn", {"trigger": "tool:psql", "fix": "wait"}, "/v1/entries"),
        ("feedback", {"id": "a", "success": False}, "/v1/learnings/a/outcome"),
        ("search", {"query": "q", "limit": None}, "/v1/search"),
    ],
)
def test_each_tool_has_its_route(tool: str, arguments: dict[str, Any], path: str) -> None:
    assert request_of(tool, arguments, SCOPE._replace(agent=None)).path == path


@pytest.mark.parametrize(
    ("tool", "reply", "text"),
    [
        ("search", {"results": [], "degraded": None}, "Nothing was found."),
        ("context", {"block": ""}, "Memory holds nothing about this."),
        ("context", {"block": "## …"}, "## …"),
        ("learn", {"id": "i", "version": 1, "changed": True}, "Saved as i, version 1."),
        ("forget", {"id": "i"}, "Forgotten: i."),
        (
            "forget",
            {"id": "i", "backups": 2, "backups_until": "2026-12-01"},
            "Forgotten: i. Automatic backups that may hold it until 2026-12-01: 2.",
        ),
        (
            "forget",
            {"id": "i", "backups": 1, "backups_until": None},
            "Forgotten: i. Automatic backups that may hold it until somebody removes them: 1.",
        ),
        ("forget", {"id": "i", "parts": ["j"]}, "Forgotten: i. The other part of the turn is kept: j."),
        ("feedback", {"id": "i"}, "Recorded for i."),
    ],
)
def test_the_outcome_is_one_sentence(tool: str, reply: dict[str, Any], text: str) -> None:
    assert outcome_text(tool, reply) == text


def test_a_refusal_says_what_to_do() -> None:
    assert (
        failure_text("invalid_input", "'soon' is no duration", "Write 30d.")
        == "'soon' is no duration. Write 30d."
    )
    assert "Ask the operator" in failure_text("access_denied", "Not yours.", "")
    with pytest.raises(InvalidToolArguments, match="at least 50"):
        request_of("context", {"query": "q", "budget_tokens": 1}, SCOPE)


@pytest.mark.parametrize(
    ("tool", "given", "sent"),
    [
        ("search", {"query": "q", "limit": 5.0}, {"limit": 5}),
        ("search", {"query": "q", "limit": "5"}, {"limit": 5}),
        ("save", {"content": "c", "cues": '["a", "b"]'}, {"cues": ["a", "b"]}),
        ("feedback", {"id": "e", "success": "True"}, {"success": True}),
        ("save", {"content": "5"}, {"content": "5"}),
    ],
)
def test_values_written_as_text_are_read_as_official_servers_read_them(
    tool: str, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    body = request_of(tool, given, SCOPE).body or {}
    assert {name: body[name] for name in sent} == sent


def test_only_what_changes_nothing_when_repeated_is_announced_so() -> None:
    repeatable = {tool["name"] for tool in TOOLS if tool["annotations"]["idempotentHint"]}
    assert repeatable == {"search", "context", "forget"}


def test_an_escaped_namespace_is_shown_as_what_it_was_made_from() -> None:
    saved = outcome_text("save", {"id": "e", "version": 1}, namespace="dir-x:/home/ann/my@20shop")
    assert saved.startswith("Saved in dir:/home/ann/my shop as e")
    hit = {"id": "e", "namespace": "git-x:git.sr.ht/@7ebob/x", "content": "c"}
    assert "git:git.sr.ht/~bob/x" in outcome_text("search", {"results": [hit]})


@pytest.mark.parametrize(("tool", "says"), [("search", "Try again later"), ("save", "search before")])
def test_after_a_timeout_the_model_knows_what_may_have_happened(tool: str, says: str) -> None:
    assert says in late_text(tool, 10)
