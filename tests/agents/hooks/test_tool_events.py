"""What hooks ask about the tools of agents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.agents.hooks.tool_events import MAX_TEXT_CHARS, TOOL_EVENTS, actions_of

BASH = {"tool_name": "Bash", "tool_input": {"command": "make all"}, "cwd": "/p"}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (BASH, ("run", "make all", "/p")),
        ({"tool_name": "Bash", "command": "make", "file_path": "", "cwd": "/p"}, ("run", "make", "/p")),
        (
            {"tool_name": "shell", "tool_input": {"command": ["bash", "-lc", "make x"]}},
            ("run", "make x", None),
        ),
        ({"toolName": "bash", "toolArgs": '{"command": "ls"}', "cwd": "/p"}, ("run", "ls", "/p")),
        ({"tool_name": "run_commands", "tool_input": {"commands": ["a", "b"]}}, ("run", "a\nb", None)),
        ({"tool_name": "Edit", "tool_input": {"file_path": "/p/a.py"}}, ("write", "/p/a.py", None)),
        ({"tool_name": "write", "tool_input": {"filePath": "/p/a.py"}}, ("write", "/p/a.py", None)),
        ({"tool_name": "NotebookEdit", "notebook_path": "/p/a.ipynb"}, ("write", "/p/a.ipynb", None)),
        ({"tool_name": "Read", "tool_input": {"file_path": "/p/a.py"}}, ("read", "/p/a.py", None)),
        ({"tool_name": "read_file", "tool_input": {"absolute_path": "/p/a.py"}}, ("read", "/p/a.py", None)),
    ],
)
def test_what_is_asked_before_a_call(payload: dict[str, Any], expected: tuple[Any, ...]) -> None:
    (asked,) = actions_of("PreToolUse", payload)
    assert (asked["action"], asked["query"], asked.get("folder")) == expected


def test_each_file_of_a_patch_is_asked_about() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n+x\n*** End Patch"
    asked = actions_of("PreToolUse", {"tool_name": "apply_patch", "tool_input": {"command": patch}})
    assert [(each["action"], each["query"]) for each in asked] == [("write", "a.py"), ("write", "b.py")]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"tool_name": "Glob", "tool_input": {"path": "/p"}},
        {"tool_name": "Bash", "tool_input": {"command": "  "}},
        {"tool_name": "Bash", "toolArgs": "{broken"},
        {"tool_name": "Bash", "tool_input": {"command": [1]}},
    ],
)
def test_other_calls_are_not_asked_about(payload: dict[str, Any]) -> None:
    assert actions_of("PreToolUse", payload) == []


@pytest.mark.parametrize(
    ("event", "more", "error"),
    [
        ("PostToolUseFailure", {"error": "boom"}, "boom"),
        ("postToolUse", {"toolResult": {"textResultForLlm": "no\n<exited with code 1>"}}, None),
        ("PostToolUse", {"tool_response": {"exit_code": 2, "output": "o", "stderr": "e"}}, "o\ne"),
        ("AfterTool", {"tool_response": {"llmContent": "Output: no\nExit Code: 1"}}, None),
        ("PostToolUse", {"tool_response": "Exit code: 127\nnot found"}, "Exit code: 127\nnot found"),
        ("tool.after", {"is_error": True, "result": {"content": [{"type": "text", "text": "bad"}]}}, "bad"),
    ],
)
def test_a_failed_command_is_asked_about_with_its_output(
    event: str, more: dict[str, Any], error: str | None
) -> None:
    (asked,) = actions_of(event, BASH | more)
    assert (asked["action"], asked["collections"]) == ("run", ["learning"])
    assert error is None or asked["error"] == error


@pytest.mark.parametrize(
    "response",
    [
        {"exit_code": 0, "output": "error"},
        {"exit_code": 0},
        "all good",
        "Exit code: 0",
        {"stdout": "x"},
        None,
        7,
    ],
)
def test_a_command_that_worked_is_not(response: object) -> None:
    assert actions_of("PostToolUse", BASH | {"tool_response": response}) == []


def test_long_outputs_keep_their_beginning_and_end() -> None:
    (asked,) = actions_of("PostToolUseFailure", BASH | {"error": "start" + "x" * 9_000 + "end"})
    assert len(asked["error"]) <= MAX_TEXT_CHARS
    assert asked["error"].startswith("start")
    assert asked["error"].endswith("end")


_NAMES = st.sampled_from(
    ["tool_input", "command", "path", "tool_response", "exit_code", "output", "error", "cwd", "tool_name"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from(sorted(TOOL_EVENTS)), st.dictionaries(_NAMES, _JSON, max_size=6))
def test_any_event_is_answered(event: str, payload: dict[str, Any]) -> None:
    for asked in actions_of(event, payload):
        assert asked["query"]
