"""Tell the records of a transcript that add only words of the user and the model from all others. No I/O.

Only known kinds are plain, of clients that show what the model reads: Claude Code, Codex and Gemini CLI begin
with texts of files, and plugins send only parts of a conversation.
"""

from __future__ import annotations

from typing import Any, Final

from agentctx.agents.hooks.own_words import own_words

_SPOKEN: Final = frozenset({"user", "user.message", "assistant", "assistant.message"})
_UNREAD: Final = frozenset(
    {
        *("system/attribution_snapshot", "system/ui_telemetry", "system.message", "session.start"),
        *("session.usage_record", "session.shutdown", "assistant.turn_start", "assistant.turn_end"),
        *("hook.start", "hook.end"),
    }
)
"""What a client notes down for itself, except the context that a hook may put out."""
_PLAIN: Final = frozenset({"type", "text", "thought"})
_ADDED: Final = (
    *("isMeta", "isSidechain", "isCompactSummary", "toolUseResult", "systemPayload", "agentId", "source"),
    *("attachments", "toolRequests"),
)
"""Fields of a record and its data that add something else, or say that another agent spoke."""


def is_plain(record: dict[str, Any]) -> bool:
    """Return whether a record adds nothing to the conversation but what was typed or answered."""
    kind = "/".join(str(record[name]) for name in ("type", "subtype") if name in record)
    held = record.get("message") or record.get("data")
    if not isinstance(held, dict) or kind in _UNREAD:
        return kind in _UNREAD and not (isinstance(held, dict) and held.get("output"))
    content = held.get("content", held.get("parts"))
    parts = content if isinstance(content, list) else [{"text": content}]
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else None for part in parts]
    is_text = all(isinstance(text, str) for text in texts) and all(part.keys() <= _PLAIN for part in parts)
    if (
        kind not in _SPOKEN
        or not is_text
        or any(each.get(name) for each in (record, held) for name in _ADDED)
    ):
        return False
    return kind.startswith("assistant") or own_words("\n".join(texts)) == "\n".join(texts).strip() != ""
