import html
from typing import Any

import pytest

from agentctx.agents.hooks import hook_events
from agentctx.agents.hooks.hook_events import HookQuestion, block_of, output, prompt_of
from agentctx.service.stores.redaction import redact_name
from agentctx.text.redaction.redactor import Redactor
from agentctx.text.redaction.rules import load_rules

BLOCK = "## Semantic Context (RAG)\n\nPassages …\n\n<memory 5d41402abc4b>\n> old\n</memory 5d41402abc4b>"


def question(event: str, client: str, payload: dict[str, Any]) -> HookQuestion:
    wanted = hook_events.question(event, client, payload, namespaces=["n", "user:ann"])
    assert wanted is not None
    return wanted


@pytest.mark.parametrize(
    ("client", "event", "position"),
    [
        ("claude-code", "UserPromptSubmit", "system"),
        ("codex", "UserPromptSubmit", "system"),
        ("gemini", "BeforeAgent", "tail"),
        ("copilot", "userPromptSubmitted", "tail"),
        ("opencode", "chat.message", "tail"),
        ("pi", "chat.message", "tail"),
        ("cline", "chat.message", "tail"),
        ("qwen", "UserPromptSubmit", "tail"),
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
        html.escape(BLOCK, quote=False),
        f"<qwen:user-prompt-submit-context>{html.escape(BLOCK)}</qwen:user-prompt-submit-context>",
    ],
)
def test_injected_context_is_not_asked_about(injected: str) -> None:
    assert prompt_of({"prompt": f"{injected}\nHow do we deploy?"}) == "How do we deploy?"


@pytest.mark.parametrize("prompt", ["", "  ", "/compact now", None, 5, BLOCK])
def test_a_prompt_without_content_asks_nothing(prompt: object) -> None:
    asked = {"prompt": prompt}
    assert hook_events.question("UserPromptSubmit", "codex", asked, namespaces=["n"]) is None


def test_a_hostile_prompt_does_not_take_forever() -> None:
    assert prompt_of({"prompt": "<hook_context>" * 20_000}).startswith("<hook_context>")


def test_a_session_starts_with_rules_then_other_project_knowledge() -> None:
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


def test_a_prompt_excludes_passages_its_conversation_has() -> None:
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


def test_cursor_takes_context_at_the_start_alone_and_as_the_system() -> None:
    started = {
        "conversation_id": "c1",
        "session_id": "c1",
        "workspace_roots": ["/x"],
        "composer_mode": "agent",
    }
    asked = question("sessionStart", "cursor", started)
    assert {body["position"] for body in asked.bodies} == {"system"}
    assert {body["conversation"] for body in asked.bodies} == {"c1"}
    prompt = {"conversation_id": "c1", "prompt": "How do we deploy?"}
    assert hook_events.question("beforeSubmitPrompt", "cursor", prompt, namespaces=["n"]) is None


def test_a_conversation_of_opencode_is_not_named_like_a_token() -> None:
    name = "ses_df773b319ffeQk4yaAcWGiHREY"
    (body,) = question("chat.message", "opencode", {"prompt": "How?", "session_id": name}).bodies
    assert body["conversation"] == "df773b319ffeQk4yaAcWGiHREY"
    assert redact_name(body["conversation"], Redactor(load_rules()))[0] == body["conversation"]
    assert redact_name(name, Redactor(load_rules()))[0] != name
