from typing import Any

import pytest

from agentctx.mcp.hook_events import HookQuestion, RememberedEntry, block_of, decided, output, prompt_of
from agentctx.redaction.redactor import Redactor
from agentctx.redaction.rules import load_rules
from agentctx.stores.redaction import redact_name

BLOCK = "## Semantic Context (RAG)\n\nPassages …\n\n<memory 5d41402abc4b>\n> old\n</memory 5d41402abc4b>"


def question(event: str, client: str, payload: dict[str, Any]) -> HookQuestion:
    wanted = decided(event, client, payload, namespaces=["n", "user:ann"], remember=False)
    assert isinstance(wanted, HookQuestion)
    return wanted


@pytest.mark.parametrize(
    ("client", "event", "position"),
    [
        ("claude-code", "UserPromptSubmit", "system"),
        ("codex", "UserPromptSubmit", "system"),
        ("gemini", "BeforeAgent", "tail"),
        ("copilot", "userPromptSubmitted", "tail"),
        ("opencode", "chat.message", "tail"),
    ],
)
def test_a_prompt_asks_with_the_authority_of_its_place(client: str, event: str, position: str) -> None:
    (body,) = question(event, client, {"prompt": "How do we deploy?"}).bodies
    assert body == {"query": "How do we deploy?", "namespaces": ["n", "user:ann"], "position": position}


@pytest.mark.parametrize(
    "injected",
    [
        "<hook_context>what a hook said</hook_context>",
        "<system-reminder>\nold\n</system-reminder>",
        "<environment_context><cwd>/x</cwd></environment_context>",
        BLOCK,
        BLOCK + "\n" + BLOCK,
    ],
)
def test_injected_context_is_not_asked_about(injected: str) -> None:
    assert prompt_of({"prompt": f"{injected}\nHow do we deploy?"}) == "How do we deploy?"


@pytest.mark.parametrize("prompt", ["", "  ", "/compact now", None, 5, BLOCK])
def test_what_is_no_question_asks_nothing(prompt: object) -> None:
    assert (
        decided("UserPromptSubmit", "codex", {"prompt": prompt}, namespaces=["n", "user:ann"], remember=True)
        is None
    )


def test_a_hostile_prompt_does_not_take_forever() -> None:
    assert prompt_of({"prompt": "<hook_context>" * 20_000}).startswith("<hook_context>")


def test_a_session_begins_with_the_rules_then_with_what_else_the_project_knows() -> None:
    asked = question("SessionStart", "codex", {"source": "startup", "session_id": "s1"})
    assert [body.get("category") for body in asked.bodies] == ["rule", None]
    for body in asked.bodies:
        assert (body["collections"], body["position"], body["conversation"]) == (
            ["knowledge"],
            "system",
            "s1",
        )
        assert body["all"] is True


@pytest.mark.parametrize(
    ("source", "restarted"),
    [("startup", True), ("clear", True), ("compact", True), ("resume", False), ("fork", False)],
)
def test_after_a_compaction_all_may_be_shown_again(source: str, restarted: bool) -> None:
    asked = question("SessionStart", "claude-code", {"source": source, "session_id": "s1"})
    assert [body.get("restarted", False) for body in asked.bodies] == [restarted, False]


def test_a_prompt_asks_for_what_its_conversation_was_not_given() -> None:
    (body,) = question("BeforeAgent", "gemini", {"prompt": "How do we deploy?", "session_id": "s1"}).bodies
    assert body["conversation"] == "s1"
    assert "restarted" not in body


@pytest.mark.parametrize(
    ("reply", "trusted", "shown"),
    [
        ({"block": BLOCK, "results": [{"trust": "agent", "flags": []}]}, True, True),
        ({"block": BLOCK, "results": [{"trust": "external", "flags": []}]}, True, False),
        ({"block": BLOCK, "results": [{"trust": "agent", "flags": ["override"]}]}, True, False),
        ({"block": BLOCK, "results": [{"trust": "external", "flags": []}]}, False, True),
        ({"block": "x" * 9_501, "results": []}, False, False),
        ({"block": "", "results": []}, True, False),
    ],
)
def test_nothing_from_outside_speaks_for_the_system(
    reply: dict[str, Any], trusted: bool, shown: bool
) -> None:
    assert bool(block_of(reply, trusted=trusted)) is shown


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (
            "claude-code",
            {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "b"}},
        ),
        ("codex", {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "b"}}),
        ("copilot", {"additionalContext": "b"}),
        ("cursor", {"additional_context": "b"}),
    ],
)
def test_the_answer_has_the_form_of_the_client(client: str, expected: dict[str, Any]) -> None:
    assert output("UserPromptSubmit", client, "b") == expected
    assert output("UserPromptSubmit", client, "") is None


def test_the_end_of_a_turn_gives_no_context() -> None:
    assert output("Stop", "claude-code", "b") == {}


def test_a_turn_is_remembered_only_when_that_is_wanted() -> None:
    payload = {
        "session_id": "s",
        "prompt": f"{BLOCK}\nWhere is the log?",
        "last_assistant_message": "The log of the service is in /var/log/shop/service.log.",
    }
    assert decided("Stop", "codex", payload, namespaces=["n", "user:ann"], remember=False) is None
    wanted = decided("Stop", "codex", payload, namespaces=["n", "user:ann"], remember=True)
    assert isinstance(wanted, RememberedEntry)
    assert wanted.body["content"] == (
        "User: Where is the log?\n\nAssistant: The log of the service is in /var/log/shop/service.log."
    )
    assert (wanted.body["session"], wanted.body["origin"]) == ("s", "capture")


def test_a_short_answer_is_not_worth_remembering() -> None:
    payload = {"session_id": "s", "last_assistant_message": "Done."}
    assert decided("Stop", "codex", payload, namespaces=["n", "user:ann"], remember=True) is None


def test_the_summary_of_a_compaction_is_a_reflection() -> None:
    payload = {"session_id": "s", "compact_summary": f"The shop moves to Postgres 16.\n{BLOCK}"}
    assert decided("PostCompact", "claude-code", payload, namespaces=["n"], remember=False) is None
    wanted = decided("PostCompact", "claude-code", payload, namespaces=["n"], remember=True)
    assert isinstance(wanted, RememberedEntry)
    assert (wanted.body["collection"], wanted.body["content"]) == (
        "reflection",
        "The shop moves to Postgres 16.",
    )
    assert output("PostCompact", "claude-code", "") == {}


def test_a_conversation_of_opencode_is_not_named_like_a_token() -> None:
    name = "ses_df773b319ffeQk4yaAcWGiHREY"
    (body,) = question("chat.message", "opencode", {"prompt": "How?", "session_id": name}).bodies
    assert body["conversation"] == "df773b319ffeQk4yaAcWGiHREY"
    assert redact_name(body["conversation"], Redactor(load_rules()))[0] == body["conversation"]
    assert redact_name(name, Redactor(load_rules()))[0] != name
