"""Tell the records of a transcript that add only words of the user and the model from all others. No I/O.

Only known kinds are plain, of clients that show what the model reads: Claude Code, Codex and Gemini CLI begin
with texts of files, and plugins send only parts of a conversation.
"""

from __future__ import annotations

from typing import Any, Final

from agentctx.mcp.own_words import own_words

_SPOKEN: Final = frozenset({"user", "user.message", "assistant", "assistant.message"})
_UNREAD: Final = frozenset(
    {
        *("system/attribution_snapshot", "system/ui_telemetry", "system.message", "session.start"),
        *("session.usage_record", "session.shutdown", "assistant.turn_start", "assistant.turn_end"),
        *("hook.start", "hook.end"),
    }
)
"""What a client notes down for itself, except the context that a hook may put out."""
_ADDED: Final = (
    *("isMeta", "isSidechain", "isCompactSummary", "toolUseResult", "toolCallResult", "systemPayload"),
    *("agentId", "source", "attachments", "toolRequests"),
)
"""Fields of a spoken record that add something else, or say that another agent spoke."""


def is_plain(record: dict[str, Any]) -> bool:
    """Return whether a record adds nothing to the conversation but what was typed or answered."""
    kind = "/".join(str(record[name]) for name in ("type", "subtype") if name in record)
    held: dict[str, Any] = record.get("message") or record.get("data") or {}
    if not isinstance(held, dict):
        return False
    if kind in _UNREAD:
        return not held.get("output")
    words = _words(held.get("content", held.get("parts")))
    if kind not in _SPOKEN or words is None or any(record.get(name) or held.get(name) for name in _ADDED):
        return False
    return kind.startswith("assistant") or own_words(words) == words.strip() != ""


def _words(content: object) -> str | None:
    """Return the text of a record's content; None if it has anything else."""
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else [None]
    texts: list[Any] = [
        each.get("text") if isinstance(each, dict) and _is_text(each) else each for each in parts
    ]
    return "\n".join(texts) if all(isinstance(text, str) for text in texts) else None


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type", "text") == "text" and part.keys() <= {"type", "text", "thought"}
