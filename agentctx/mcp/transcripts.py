"""Transcripts of agents, of which only the end is read: the last prompt. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentctx.mcp.injected_text import without_injected


def last_prompt(transcript: Sequence[str]) -> str:
    """What the user wrote last, in the lines of a transcript of Claude Code, Codex or Copilot; else empty."""
    for line in reversed(transcript):
        try:
            found = _user_text(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if found and (text := without_injected(found)):
            return text
    return ""


def _user_text(entry: Any) -> str:
    """The text of a transcript's line if a user wrote it."""
    if (
        not isinstance(entry, dict)
        or entry.get("isMeta")
        or entry.get("isSidechain")
        or entry.get("isCompactSummary")
    ):
        return ""
    if entry.get("type") == "user":
        message = entry.get("message")
        return _text_of(message.get("content")) if isinstance(message, dict) else ""
    if entry.get("type") == "user.message":
        data = entry.get("data")
        return _text_of(data.get("content")) if isinstance(data, dict) else ""
    payload = entry.get("payload")
    if (
        entry.get("type") == "event_msg"
        and isinstance(payload, dict)
        and payload.get("type") == "user_message"
    ):
        return _text_of(payload.get("message"))
    return ""


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
