"""ChatGPT's data export: the messages of each conversation on its current branch, and what it remembers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from agentctx.wire import TurnPart
from agentctx_importers.archives import exported_values
from agentctx_importers.chats import Message, messages_of
from agentctx_importers.json_values import text_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem

_DOCUMENTS: Final = re.compile(r"(?:conversations|memories)(?:[-_]?\d+)?\.json")
_TEXT_TYPES: Final = ("text", "multimodal_text")


def _read(path: Path) -> Iterator[Item]:
    for where, value in exported_values(path, lambda name: _DOCUMENTS.fullmatch(name) is not None):
        if not isinstance(value, dict):
            yield RefusedItem(where, "It is not a conversation or a memory.")
        elif "mapping" in value:
            yield from _conversation(where, value)
        elif (text := text_in(value, "content", "memory", "text")) and (native := text_in(value, "id")):
            changed = time_ms(value.get("updated_at") or value.get("created_at"))
            key = f"chatgpt/memory/{native}"
            yield Record(id=key, key=key, content=text, tags=("chatgpt",), created=changed, updated=changed)
        else:
            yield RefusedItem(where, "It is not a conversation or a memory.")


def _conversation(where: str, value: dict[str, Any]) -> Iterator[Item]:
    name, nodes = text_in(value, "conversation_id", "id"), value["mapping"]
    if name is None or not isinstance(nodes, dict):
        yield RefusedItem(where, "A conversation has no id or no messages.")
        return
    messages = (message for node in branch(nodes, value.get("current_node")) if (message := _message(*node)))
    title = text_in(value, "title")
    source = f"https://chatgpt.com/c/{name}"
    yield from messages_of("chatgpt", name, title, source, time_ms(value.get("create_time")), messages)


def branch(nodes: dict[str, Any], current: object) -> list[tuple[str, dict[str, Any]]]:
    """Return the nodes from the root to the current one; without it, all of them by time."""
    path: dict[str, dict[str, Any]] = {}
    name = current
    while isinstance(name, str) and name not in path and isinstance(node := nodes.get(name), dict):
        path[name] = node
        name = node.get("parent")
    if path:
        return [*reversed(path.items())]
    known = [(name, node) for name, node in nodes.items() if isinstance(node, dict)]
    dated = [(time_ms(_in(node, "message").get("create_time")) or 0, name, node) for name, node in known]
    return [(name, node) for _, name, node in sorted(dated, key=itemgetter(0))]


def _message(name: str, node: dict[str, Any]) -> Message | None:
    message = _in(node, "message")
    content, role = _in(message, "content"), _in(message, "author").get("role")
    is_hidden = _in(message, "metadata").get("is_visually_hidden_from_conversation")
    parts = content.get("parts")
    if is_hidden or role not in {"user", "assistant"} or content.get("content_type") not in _TEXT_TYPES:
        return None
    if message.get("recipient") not in {None, "all"} or not isinstance(parts, list):
        return None  # a call of a tool
    text = "\n\n".join(each for each in parts if isinstance(each, str) and each.strip())
    part: TurnPart = "prompt" if role == "user" else "answer"
    return Message(text_in(message, "id") or name, part, text, time_ms(message.get("create_time")))


def _in(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


SOURCE: Final = MemorySource("ChatGPT's data export: conversations and memories", lambda: (), _read)
