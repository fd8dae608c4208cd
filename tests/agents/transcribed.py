"""Transcripts as each client writes them, rendered from the steps of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

Records = list[dict[str, Any]]


class Step(NamedTuple):
    """A step: `prompt`, `answer`, `tool`, `summary`, `machine` (a prompt of another agent), or a prompt with
    a `file` or an `image`, whose text is `added`.
    """

    kind: str
    text: str
    added: str = ""


def _claude(step: Step, at: int) -> Records:  # noqa: PLR0911 - one for each kind
    about = {"isSidechain": False, "promptId": f"p{at}", "userType": "external", "entrypoint": "cli"}
    user = {"type": "user", **about, "promptSource": "typed", "message": {"content": step.text}}
    match step.kind:
        case "prompt":
            return [user]
        case "answer":
            return [_said_by_claude({"type": "text", "text": step.text})]
        case "tool":
            call = {"type": "tool_use", "id": f"c{at}", "name": "Bash", "input": {"command": "x"}}
            result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": step.text}
            told = {
                "type": "user",
                **about,
                "message": {"content": [result]},
                "toolUseResult": {"stdout": "x"},
            }
            return [_said_by_claude(call), told]
        case "summary":
            return [user | {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}]
        case "machine":
            origins: Records = [{"isSidechain": True}, {"isMeta": True}, {"promptSource": "system"}]
            origins += [{"origin": {"kind": "channel"}}, {"entrypoint": "sdk-py", "promptSource": "sdk"}]
            return [user | origins[at % len(origins)]]
        case "file":
            attachment = {"type": "file", "content": {"type": "text", "file": {"content": step.added}}}
            return [user, {"type": "attachment", "attachment": attachment}]
        case _:
            image = {"type": "image", "source": {"type": "base64", "data": "eA=="}}
            return [user | {"message": {"content": [{"type": "text", "text": step.text}, image]}}]


def _said_by_claude(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "isSidechain": False, "message": {"role": "assistant", "content": [part]}}


def _codex(step: Step, at: int) -> Records:  # noqa: PLR0911 - one for each kind
    def item(kind: str, *content: dict[str, Any]) -> dict[str, Any]:
        about = {"type": kind, "content": list(content)}
        payload = {"type": "item_completed", "turn_id": f"t{at}", "item": about}
        return {"type": "event_msg", "payload": payload}

    typed = item("UserMessage", {"type": "text", "text": step.text})
    match step.kind:
        case "prompt":
            return [typed]
        case "answer":
            return [item("AgentMessage", {"type": "Text", "text": step.text})]
        case "tool":
            call = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": f"c{at}"}
            result = {"type": "function_call_output", "call_id": f"c{at}", "output": step.text}
            return [{"type": "response_item", "payload": each} for each in (call, result)]
        case "summary":
            return [{"type": "compacted", "payload": {"message": step.text}}]
        case "machine":
            return [{"type": "session_meta", "payload": {"source": {"subagent": "review"}}}, typed]
        case "file":
            content = [{"type": "input_text", "text": step.added}]
            message = {"type": "message", "role": "user", "content": content}
            return [{"type": "response_item", "payload": message}, typed]
        case _:
            text = {"type": "text", "text": step.text}
            return [item("UserMessage", text, {"type": "local_image", "path": "/x.png"})]


def _gemini(step: Step, at: int) -> Records:  # noqa: PLR0911 - one for each kind
    typed = {"id": str(at), "type": "user", "content": [{"text": step.text}]}
    match step.kind:
        case "prompt":
            return [typed]
        case "answer":
            return [{"id": str(at), "type": "gemini", "content": step.text}]
        case "tool":
            response = {"functionResponse": {"id": f"c{at}", "response": {"output": step.text}}}
            call = {"id": f"c{at}", "name": "web_fetch", "args": {}, "result": [response]}
            return [{"id": str(at), "type": "gemini", "content": "", "toolCalls": [call]}]
        case "summary":
            content = f"<state_snapshot>{step.text}</state_snapshot>"
            return [{"id": str(at), "type": "user", "content": [{"text": content}]}]
        case "machine":
            return [{"sessionId": "s", "kind": "subagent"}, typed]
        case "file":
            texts = [step.text, "\n--- Content from referenced files ---", f"\n{step.added}\n"]
            parts = [{"text": text} for text in [*texts, "\n--- End of content ---"]]
            return [typed | {"content": parts, "displayContent": [{"text": step.text}]}]
        case _:
            return [typed | {"content": [{"text": step.text}, {"inlineData": {"data": "eA=="}}]}]


def _qwen(step: Step, at: int) -> Records:  # noqa: PLR0911 - one for each kind
    def said(kind: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return {"type": kind, "provenance": "real_user", "message": {"role": "user", "parts": list(parts)}}

    typed = said("user", {"text": step.text})
    match step.kind:
        case "prompt":
            return [typed]
        case "answer":
            return [said("assistant", {"text": step.text})]
        case "tool":
            call = {"functionCall": {"id": f"c{at}", "name": "read_file", "args": {}}}
            result = {"functionResponse": {"id": f"c{at}", "response": {"output": step.text}}}
            return [said("assistant", call), said("tool_result", result)]
        case "summary":
            compressed = {"type": "system", "subtype": "chat_compression"}
            return [compressed, typed | {"provenance": "system"}]
        case "machine":
            return [typed | {"provenance": ("system", "subagent")[at % 2]}]
        case "file":
            added = {"text": f"\n--- Content from referenced files ---\n{step.added}"}
            return [said("user", {"text": step.text}, added)]
        case _:
            return [said("user", {"text": step.text}, {"inlineData": {"data": "eA=="}})]


def _copilot(step: Step, at: int) -> Records:
    typed = {"type": "user.message", "data": {"content": step.text, "messageId": str(at)}}
    match step.kind:
        case "prompt":
            return [typed]
        case "answer":
            return [{"type": "assistant.message", "data": {"content": step.text, "toolRequests": []}}]
        case "tool":
            begun = {"toolCallId": f"c{at}", "toolName": "bash", "arguments": {"command": "x"}}
            ended = {"toolCallId": f"c{at}", "success": True, "result": {"content": step.text}}
            return [
                {"type": "tool.execution_start", "data": begun},
                {"type": "tool.execution_complete", "data": ended},
            ]
        case "summary":
            return [{"type": "session.compaction_complete", "data": {"summaryContent": step.text}}]
        case "machine":
            other = {"data": {"content": step.text, "source": "skill-pdf"}}
            return [typed | (other if at % 2 else {"agentId": "a1"})]
        case _:
            return [typed | {"data": {"content": step.text, "attachments": [{"type": step.kind}]}}]


def _opencode(step: Step, at: int) -> Records:
    match step.kind:
        case "prompt" | "file" | "image":
            return [{"prompt": step.text, "typed": step.text}]
        case "tool":
            return [{"call": {"id": f"c{at}", "name": "webfetch", "error": None}}]
        case "machine":
            return [{"prompt": step.text, "typed": ""}]
        case kind:
            return [{kind: step.text}]


def _cursor(step: Step, at: int) -> Records:
    del at

    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "message": {"content": [{"type": "text", "text": text}]}}

    typed = f"<user_query>\n{step.text}\n</user_query>"
    match step.kind:
        case "prompt" | "image":
            return [said("user", typed)]
        case "answer":
            return [said("assistant", step.text)]
        case "file":
            return [said("user", f"<attached_files>\n{step.added}\n</attached_files>\n{typed}")]
        case "summary" | "machine":
            return [said("user", f"[Previous conversation summary]: {step.text}")]
        case _:
            return []  # it does not write down what tools return


RENDERERS: Final[dict[str, Callable[[Step, int], Records]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "copilot": _copilot,
    "opencode": _opencode,
    "cursor": _cursor,
}


def transcript(client: str, steps: Sequence[Step]) -> list[str]:
    """Return the lines of the client's transcript. Steps of one turn have the same number."""
    turn, lines = 0, []
    for step in steps:
        turn += step.kind in {"prompt", "machine", "file", "image"}
        lines += [json.dumps(record) for record in RENDERERS[client](step, turn)]
    return lines
