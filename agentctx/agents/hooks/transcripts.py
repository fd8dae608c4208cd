"""Read what was said and done in a conversation from its client's transcript. No I/O.

Each client writes JSON lines in its own format; our plugins for opencode and pi pass messages in ours
(`{"prompt": …}`, `{"answer": …}`, `{"summary": …}`, `{"call": …}`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from agentctx.agents.hooks.injected_text import without_injected
from agentctx.agents.hooks.own_words import is_plain

_TARGETS: Final = ("command", "cmd", "file_path", "filePath", "path", "absolute_path")
_EXIT: Final = re.compile(r"(?:Process exited with code|Exit Code:|exit code:?)\s*(-?\d+)", re.IGNORECASE)
_MAX_HEAD_CHARS: Final = 400
"""Size of the part of an output in which Codex reports the command's exit code."""
_USER_QUERY: Final = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
"""The user's own words within the text that Cursor adds."""
_CODEX_PREAMBLE: Final = "to assist with your own analysis:\n"

Json = dict[str, Any]
_Kind = Literal["prompt", "answer", "summary"]


class Utterance(NamedTuple):
    """A text. `typed` is the part of a prompt that its user entered, as the client shows it."""

    kind: _Kind
    text: str
    typed: str = ""


class ToolStarted(NamedTuple):
    """The start of a tool call."""

    id: str
    name: str
    target: str


class ToolEnded(NamedTuple):
    """The outcome of a tool call; an `error` of None means success. A refused call is ignored."""

    id: str
    error: str | None
    is_refused: bool = False


class TurnStarted(NamedTuple):
    """Marks that the following events belong to the turn of this name, which may be empty."""

    name: str


class TurnEnded(NamedTuple):
    """Marks that the preceding events belong to the turn of this name, which is complete."""

    name: str


Flag = Literal["read", "delegated"]
"""The model may have read more than was typed; another agent wrote its prompts."""
Event = Flag | Utterance | ToolStarted | ToolEnded | TurnStarted | TurnEnded | int
"""A number is the time of the events after it, in milliseconds since the epoch; 0: unknown."""


def parsed_lines(lines: Iterable[str]) -> Iterator[Json]:
    """Yield the objects of JSON lines; an empty one, which has an unknown kind, for each truncated line."""
    for line in lines:
        yield _object(_loaded(line))


def _time_of(entry: Json) -> int:
    """Return when an entry was written, 0 if it does not say."""
    try:
        moment = datetime.fromisoformat(str(entry.get("timestamp") or ""))
        return max(0, int(moment.timestamp() * 1_000)) if moment.tzinfo else 0
    except (ValueError, OverflowError):
        return 0


def events(entries: Iterable[Json]) -> Iterator[Event]:
    for entry in entries:
        yield _time_of(entry)
        if not is_plain(entry):
            yield "read"
        if entry.get("isMeta") or entry.get("isSidechain") or entry.get("isCompactSummary"):
            continue
        for read in (_claude, _codex, _gemini, _qwen, _copilot, _neutral):
            yield from read(entry)


def _claude(entry: Json) -> Iterator[Event]:
    """Claude Code: `user` and `assistant` with an API message. Cursor: the same, but named by `role`."""
    kind, message = entry.get("type", entry.get("role")), _object(entry.get("message"))
    content = message.get("content")
    if kind == "user":
        query = _USER_QUERY.search(_text(content))
        if "promptId" in entry or _text(content):
            yield TurnStarted(str(entry.get("promptId") or ""))
        text = query[1] if query else _text(content)
        yield from _utterance("prompt", text, text if _is_users(entry) else "")
    elif kind == "assistant":
        yield from _utterance("answer", _text(content))
    for part in _objects(content):
        if part.get("type") == "tool_use":
            yield ToolStarted(str(part.get("id")), str(part.get("name")), _target(part.get("input")))
        elif part.get("type") == "tool_result":
            error = _text(part.get("content")) if part.get("is_error") else None
            yield ToolEnded(str(part.get("tool_use_id")), error, "toolDenialKind" in entry)


def _codex(entry: Json) -> Iterator[Event]:
    """Codex: `event_msg` for prompts and answers, `response_item` for calls, `compacted` for summaries."""
    payload = _object(entry.get("payload"))
    item = _object(payload.get("item"))
    by = _object(payload.get("turn_attribution"))
    if isinstance(payload.get("source"), dict) or by.get("parent_turn_id") or by.get("initiating_agent_path"):
        yield "delegated"
    if entry.get("type") == "event_msg" and isinstance(payload.get("turn_id"), str):
        yield TurnStarted(payload["turn_id"])
    match entry.get("type"), payload.get("type"):
        case "event_msg", "user_message":
            yield from _utterance("prompt", payload.get("message"), payload.get("message"))
        case "event_msg", "item_completed" if item.get("type") == "UserMessage":
            yield from _utterance("prompt", _text(item.get("content")), _text(item.get("content")))
        case "event_msg", "item_completed" if item.get("type") == "AgentMessage":
            yield from _utterance("answer", _text(item.get("content")))
        case "response_item", "function_call":
            target = _target(_loaded(payload.get("arguments")))
            yield ToolStarted(str(payload.get("call_id")), str(payload.get("name")), target)
        case "response_item", "function_call_output":
            yield ToolEnded(str(payload.get("call_id")), _failure(_text(payload.get("output"))))
        case "compacted", _:
            message = str(payload.get("message") or "")
            yield from _utterance("summary", message.partition(_CODEX_PREAMBLE)[2] or message)


def _gemini(entry: Json) -> Iterator[Event]:
    """Gemini CLI: `user` and `gemini` with the API's parts; each call includes its outcome."""
    content = entry.get("content")
    if entry.get("kind") not in (None, "main"):
        yield "delegated"
    if entry.get("type") == "user":
        yield from _utterance("prompt", _text(content), _text(entry.get("displayContent")) or _text(content))
    elif entry.get("type") == "gemini":
        yield from _utterance("answer", _text(content))
    for call in _objects(entry.get("toolCalls")):
        id_ = str(call.get("id"))
        yield ToolStarted(id_, str(call.get("name")), _target(call.get("args")))
        result = next(_objects(call.get("result")), {})
        response = _object(_object(result.get("functionResponse")).get("response"))
        yield ToolEnded(id_, _error_in(response, call), _is_cancelled(call))


def _error_in(response: Json, call: Json) -> str | None:
    """Return the error of a tool of Gemini CLI or Qwen Code; None if it succeeded."""
    output = str(response.get("error") or response.get("output") or "")
    failed = call.get("status") == "error" or "error" in response or _failure(output, within=len(output))
    shown = call.get("resultDisplay")
    shown = _object(shown).get("output", shown)
    return (shown if isinstance(shown, str) else output) if failed else None


def _is_cancelled(call: Json) -> bool:
    return call.get("status") == "cancelled"


def _qwen(entry: Json) -> Iterator[Event]:
    """Qwen Code: messages with the parts of Gemini's API; a call and its outcome are two entries."""
    parts = list(_objects(_object(entry.get("message")).get("parts")))
    if (kind := entry.get("type")) in ("user", "assistant"):
        shown = _object(entry.get("systemPayload")).get("displayText") or _text(parts)
        is_users = entry.get("provenance") in (None, "real_user") and "subtype" not in entry
        yield from _utterance(
            "prompt" if kind == "user" else "answer", _text(parts), shown if is_users else ""
        )
    result = _object(entry.get("toolCallResult"))
    for part in parts:
        if call := _object(part.get("functionCall")):
            yield ToolStarted(str(call.get("id")), str(call.get("name")), _target(call.get("args")))
        elif response := _object(part.get("functionResponse")):
            output = _object(response.get("response"))
            yield ToolEnded(str(response.get("id")), _error_in(output, result), _is_cancelled(result))


def _copilot(entry: Json) -> Iterator[Event]:
    """Copilot CLI: events with their `data`."""
    data = _object(entry.get("data"))
    match entry.get("type"):
        case "user.message":
            is_users = data.get("source") in (None, "user") and not entry.get("agentId")
            yield from _utterance("prompt", data.get("content"), data.get("content") if is_users else "")
        case "assistant.message":
            yield from _utterance("answer", data.get("content"))
        case "session.compaction_complete":
            yield from _utterance("summary", data.get("summaryContent"))
        case "hook.start" if data.get("hookType") == "agentStop":
            yield TurnEnded(str(_object(data.get("input")).get("timestamp")))
        case "tool.execution_start":
            target = _target(data.get("arguments"))
            yield ToolStarted(str(data.get("toolCallId")), str(data.get("toolName")), target)
        case "tool.execution_complete":
            fault, result = _object(data.get("error")), _object(data.get("result"))
            output = str(fault.get("message") or result.get("content") or "")
            code = _object(data.get("shellExecution")).get("exitCode")
            failed = data.get("success") is False or code not in (None, 0)
            error = output.partition("\n<shellId")[0] if failed else None
            yield ToolEnded(str(data.get("toolCallId")), error, fault.get("code") == "denied")


def _neutral(entry: Json) -> Iterator[Event]:
    """Messages of our plugins."""
    if "type" in entry:
        return
    yield from _utterance("prompt", entry.get("prompt"), entry.get("typed"))
    call = _object(entry.get("call"))
    if call:
        id_, error = str(call.get("id")), call.get("error")
        yield ToolStarted(id_, str(call.get("name")), _target(call))
        yield ToolEnded(id_, error if isinstance(error, str) else None)
    yield from _utterance("answer", entry.get("answer"))
    yield from _utterance("summary", entry.get("summary"))


def _is_users(entry: Json) -> bool:
    """Return whether a user of Claude Code entered the prompt, not a schedule, a channel or a program."""
    content = _object(entry.get("message")).get("content")
    return (
        all(part.get("type") in ("text", "image") for part in _objects(content))
        and _object(entry.get("origin")).get("kind") in (None, "human")
        and entry.get("promptSource") in (None, "typed", "queued", "sdk")
        and entry.get("entrypoint") in (None, "cli", "sdk-cli", "claude-vscode", "claude-desktop")
    )


def _utterance(kind: _Kind, text: object, typed: object = "") -> Iterator[Utterance]:
    """Yield the text without injected context, if anything is left."""
    if isinstance(text, str) and (kept := without_injected(text)):
        yield Utterance(kind, kept, typed if isinstance(typed, str) else "")


def _failure(output: str, *, within: int = _MAX_HEAD_CHARS) -> str | None:
    """Return the output of a command that reports a non-zero exit code, without the report; else None."""
    match = _EXIT.search(output[:within])
    if match is None or int(match[1]) == 0:
        return None
    return output[: match.start()] + output[match.end() :]


def _target(arguments: object) -> str:
    given = _object(arguments)
    target = next((given[name] for name in _TARGETS if given.get(name)), "")
    if isinstance(target, list):  # an argument list; after a shell's `-c`, the last one is the command
        return str(target[-1]) if target[1:2] in (["-c"], ["-lc"]) else " ".join(map(str, target))
    return str(target)


def _text(content: object) -> str:
    """Return a string, or the joined text parts of a prompt or an answer, without tool results."""
    if isinstance(content, str):
        return content
    kinds = {None, "text", "Text"}
    parts = [part for part in _objects(content) if part.get("type") in kinds and not part.get("thought")]
    texts = [part.get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _loaded(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Json]:
    yield from (each for each in (value if isinstance(value, list) else []) if isinstance(each, dict))
