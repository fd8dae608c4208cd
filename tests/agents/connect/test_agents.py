"""The hooks that `connect` writes for tool calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentctx.agents.connect.agents import AgentPaths, Launch, edits_of

LAUNCH = Launch(("/opt/agentctx",), "/run/a.sock")


def hooks_of(name: str, file: str) -> dict[str, Any]:
    edits = edits_of(name, AgentPaths(Path("/home/a"), {}), LAUNCH)
    assert edits is not None
    (text,) = (edit.value for each in edits if str(each.path).endswith(file) for edit in each.edits)
    hooks: dict[str, Any] = json.loads(text)["hooks"]
    return hooks


def test_claude_code_calls_the_running_server_before_a_tool_and_after_a_failed_command() -> None:
    hooks = hooks_of("claude-code", "hooks.json")
    (before,), (after,) = hooks["PreToolUse"], hooks["PostToolUseFailure"]
    assert set(before["matcher"].split("|")) >= {"Bash", "Edit", "Write", "Read", "NotebookEdit"}
    assert after["matcher"] == "Bash"
    given = before["hooks"][0]["input"]
    assert (given["event"], given["command"]) == ("PreToolUse", "${tool_input.command}")
    assert after["hooks"][0]["input"]["error"] == "${error}"


def test_a_hook_of_copilot_that_fails_denies_no_call() -> None:
    (before,) = hooks_of("copilot", "agentctx.json")["preToolUse"]
    assert before["bash"].endswith(" || true")
