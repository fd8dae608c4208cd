"""Read what an agent is about to do, or what has failed, from the event of a tool. No I/O.

A hook runs before each call of a tool, so this module does not import `typing` or `re`.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    Json = dict[str, Any]

BEFORE_EVENTS: Final = frozenset({"PreToolUse", "preToolUse", "tool.before"})
FAILURE_EVENTS: Final = frozenset({"PostToolUseFailure", "postToolUseFailure"})
AFTER_EVENTS: Final = frozenset({"PostToolUse", "postToolUse", "AfterTool", "tool.after"}) | FAILURE_EVENTS
TOOL_EVENTS: Final = BEFORE_EVENTS | AFTER_EVENTS

MAX_TEXT_CHARS: Final = 4_000
"""The longest command and the longest output that the daemon accepts."""
MOST_FILES: Final = 3
"""How many files of one patch are asked about."""
_COMMANDS: Final = ("command", "cmd", "commands", "script")
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file")
_WRITES: Final = ("edit", "write", "create", "replace", "patch", "insert", "delete", "update")
_READS: Final = ("read", "view")
_PATCHED: Final = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")
_OUTPUTS: Final = ("output", "stderr", "stdout", "llmContent", "textResultForLlm", "error", "content")
_EXIT_CODES: Final = ("exit_code", "exitCode", "exit")
_PRINTED_EXIT: Final = ("exit code: ", "exit code ", "exited with code ")


def actions_of(event: str, payload: Json) -> list[Json]:
    """Return what to ask about: `query`, `action`, `folder`, and `error` if it failed."""
    error = _error(event, payload) if event in AFTER_EVENTS else None
    if event in AFTER_EVENTS and not error:
        return []
    given = _input(payload)
    folder = payload.get("cwd") or given.get("cwd") or given.get("workdir")
    where = {"folder": folder} if isinstance(folder, str) and folder.startswith("/") else {}
    asked = [{"query": text[:MAX_TEXT_CHARS], "action": kind} | where for kind, text in _done(payload, given)]
    if error:
        learned = {"error": _shortened(error), "collections": ["learning"]}
        return [each | learned for each in asked if each["action"] == "run"][:1]
    return asked[:MOST_FILES]


def _done(payload: Json, given: Json) -> Iterator[tuple[str, str]]:
    """Yield the kind and the command or path of each action."""
    tool = str(payload.get("tool_name") or payload.get("toolName") or "").lower()
    command = _command(given)
    patched = [path for text in (command, given.get("input"), given.get("patch")) for path in _patched(text)]
    if patched:
        yield from (("write", path) for path in patched)
    elif command:
        yield "run", command
    elif path := next((given[name] for name in _PATHS if isinstance(given.get(name), str)), ""):
        if any(word in tool for word in _WRITES):
            yield "write", path
        elif any(word in tool for word in _READS):
            yield "read", path


def _input(payload: Json) -> Json:
    """Return the arguments of the tool. An `mcp_tool` hook passes them one by one, empty if missing."""
    for name in ("tool_input", "toolInput", "toolArgs", "input", "args"):
        given = payload.get(name)
        if isinstance(given, str) and given.startswith("{"):
            try:
                given = json.loads(given)
            except ValueError:
                continue
        if isinstance(given, dict):
            return given
    return payload


def _command(given: Json) -> str:
    for name in _COMMANDS:
        command = given.get(name)
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            is_shell = len(command) > 2 and command[1].startswith("-")
            command = command[2] if is_shell else "\n".join(command)
        if isinstance(command, str) and command.strip():
            return command
    return ""


def _patched(text: object) -> Iterator[str]:
    if isinstance(text, str) and "*** Begin Patch" in text:
        for line in text.splitlines():
            for start in _PATCHED:
                if line.startswith(start):
                    yield line.removeprefix(start).strip()


def _error(event: str, payload: Json) -> str:
    """Return what a failed call printed; empty if it did not fail."""
    names = ("tool_response", "toolResult", "result")
    result: object = next((payload[name] for name in names if payload.get(name)), None)
    if event in FAILURE_EVENTS or payload.get("is_error") is True:
        return _text(payload.get("error")) or _text(result)
    if isinstance(result, str):
        return result if _printed_failure(result) else ""
    if not isinstance(result, dict):
        return ""
    codes = [result[name] for name in _EXIT_CODES if isinstance(result.get(name), int)]
    text = "\n".join(filter(None, (_text(result.get(name)) for name in _OUTPUTS)))
    return text if any(codes) or (not codes and _printed_failure(text)) else ""


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(filter(None, (_text(value.get(name)) for name in (*_OUTPUTS, "message", "text"))))
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    return value if isinstance(value, str) else ""


def _printed_failure(text: str) -> bool:
    """Return whether an output says that its command exited with another code than 0."""
    low = text.lower()
    for words in _PRINTED_EXIT:
        code = low.rpartition(words)[2][:3].strip() if words in low else ""
        if code[:1].isdigit() and code[:1] != "0":
            return True
    return False


def _shortened(text: str) -> str:
    """Keep the beginning and, mostly, the end."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    start = MAX_TEXT_CHARS // 4
    return f"{text[:start]}\n{text[start + 1 - MAX_TEXT_CHARS :]}"
