"""Anthropic's Messages: separate `system`, block `messages`, tool results in user turns, cache markers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.llm.dialects.base import Dialect, Role, Turn
from agentctx.llm.dialects.content import (
    Body,
    listed,
    mapping,
    part_texts,
    replaced,
    with_item,
    with_part,
    word,
)

MARKER = "cache_control"

_TEXT = ("text",)
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_NEVER_CACHED = frozenset({"thinking", "redacted_thinking"})
# Claude Code adds its own notes to user turns, as texts beside tool results; the user did not write them.
_REMINDER = re.compile(r"\s*(?:<system-reminder>.*?</system-reminder>\s*)+", re.DOTALL)


class AnthropicMessages(Dialect):
    """`POST /v1/messages`.

    A `cache_control` at the top level of a body marks its last block. With our block last, it would mark
    that, so it is set explicitly on the client's last one; the number of markers is unchanged.
    """

    name = "anthropic_messages"

    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        content = item.get("content")
        role = _ROLES.get(word(item.get("role")), "other")
        kinds = [word(mapping(part).get("type")) for part in listed(content)]
        results = [
            part for part, kind in zip(listed(content), kinds, strict=True) if kind.endswith("tool_result")
        ]
        return Turn(
            index=index,
            role=role,
            texts=tuple(
                text
                for text in part_texts(content, _TEXT)
                if role != "user" or _REMINDER.fullmatch(text) is None
            ),
            results=tuple(text for part in results for text in part_texts(part.get("content"), _TEXT)),
            content=content,
            has_results=bool(results),
            calls_tools=role == "assistant" and any(kind.endswith("tool_use") for kind in kinds),
            takes_block=role == "user" and with_part(content, "", "text") is not None,
        )

    def system_texts(self, body: Body) -> Sequence[str]:
        return tuple(part_texts(body.get("system"), _TEXT))

    def inject_system(self, body: Body, block: str) -> Body:
        system = body.get("system")
        if not block or not listed(body.get("messages")):
            return body
        if system is None or system == "":
            return replaced(body, "system", block)
        changed = [{"type": "text", "text": block}] if system == [] else with_part(system, block, "text")
        if changed is None or isinstance(changed, str):
            return body if changed is None else replaced(body, "system", changed)
        return replaced(body, "system", _with_prefix_marked(body, changed))

    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        injected, marker = super().inject_after(body, turn_index, block), body.get(MARKER)
        is_last = turn_index == len(listed(body.get("messages"))) - 1
        if injected is body or not is_last or not isinstance(marker, Mapping):
            return injected
        message = injected["messages"][turn_index]
        if isinstance(message["content"], str):
            return injected
        marked = {**message, "content": _with_marker_before_block(message["content"], marker)}
        kept = {name: value for name, value in injected.items() if name != MARKER}
        return replaced(kept, "messages", with_item(kept["messages"], turn_index, marked))


def _with_marker_before_block(parts: Sequence[Any], marker: Mapping[str, Any]) -> list[Any]:
    """Set the marker on the last cacheable part before our block."""
    for index in range(len(parts) - 2, -1, -1):
        part = parts[index]
        kind = word(part.get("type")) if isinstance(part, Mapping) else None
        if kind is not None and kind not in _NEVER_CACHED and (kind != "text" or part.get("text")):
            return list(parts) if MARKER in part else with_item(parts, index, {**part, MARKER: marker})
    return list(parts)


def _with_prefix_marked(body: Body, parts: Sequence[Any]) -> list[Any]:
    """Mark the end of the client's system prompt, if the client leaves all marking to the API.

    Otherwise, a changing block would invalidate the cache of everything before it. If the client sets its own
    markers, none is added, because lifetimes must not increase from first to last.
    """
    marker = body.get(MARKER)
    if not isinstance(marker, Mapping) or markers(body):
        return list(parts)
    return _with_marker_before_block(parts, marker)


def markers(body: Body) -> int:
    """Count the explicit cache markers in tools, system prompt and messages."""
    messages = [mapping(message).get("content") for message in listed(body.get("messages"))]
    groups = [body.get("tools"), body.get("system"), *messages]
    return sum(MARKER in mapping(part) for group in groups for part in listed(group))
