"""The data export of claude.ai: conversations, what it remembers, and the documents of projects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from agentctx_importers.archives import exported_values
from agentctx_importers.chats import Message, messages_of
from agentctx_importers.json_values import text_in, time_ms
from agentctx_importers.markdown_text import sections
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem

_DOCUMENTS: Final = re.compile(r"(?:conversations|memories|projects)(?:[-_]?\d+)?\.json|[0-9a-f-]{36}\.json")


def _read(path: Path) -> Iterator[Item]:
    for where, value in exported_values(path, lambda name: _DOCUMENTS.fullmatch(name) is not None):
        if not isinstance(value, dict):
            yield RefusedItem(where, "It is not a conversation, memory or project.")
        elif isinstance(value.get("chat_messages"), list):
            yield from _conversation(where, value)
        elif "conversations_memory" in value or "project_memories" in value:
            yield from _memories(value)
        elif isinstance(value.get("docs"), list):
            yield from _project(value)
        else:
            yield RefusedItem(where, "It is not a conversation, memory or project.")


def _conversation(where: str, value: dict[str, Any]) -> Iterator[Item]:
    name = text_in(value, "uuid")
    if name is None:
        yield RefusedItem(where, "A conversation has no id.")
        return
    found = (_message(number, each) for number, each in enumerate(value["chat_messages"]))
    messages = (message for message in found if message is not None)
    created = time_ms(value.get("created_at"))
    source = f"https://claude.ai/chat/{name}"
    yield from messages_of("claude.ai", name, text_in(value, "name"), source, created, messages)


def _message(number: int, message: Any) -> Message | None:
    if not isinstance(message, dict) or message.get("sender") not in {"human", "assistant"}:
        return None
    parts = message.get("content")
    blocks = [each for each in parts if isinstance(each, dict)] if isinstance(parts, list) else []
    texts = [text for each in blocks if each.get("type") == "text" and (text := text_in(each, "text"))]
    return Message(
        text_in(message, "uuid") or str(number),
        "prompt" if message["sender"] == "human" else "answer",
        "\n\n".join(texts) or text_in(message, "text") or "",
        time_ms(message.get("created_at")),
    )


def _memories(value: dict[str, Any]) -> Iterator[Item]:
    """Yield what claude.ai remembers, by heading."""
    of_projects = value.get("project_memories")
    texts = [("memory", value.get("conversations_memory"))]
    texts += (
        [(f"project/{name}", text) for name, text in (of_projects or {}).items()]
        if isinstance(of_projects, dict)
        else []
    )
    for name, text in texts:
        for section in sections(text) if isinstance(text, str) else ():
            heading = " > ".join(section.headings)
            key = f"claude.ai/{name}#{heading}"
            content = f"{heading}\n\n{section.text}" if heading else section.text
            yield Record(id=key, key=key, content=content, tags=("claude.ai",))


def _project(value: dict[str, Any]) -> Iterator[Item]:
    project = text_in(value, "name") or ""
    for document in value["docs"]:
        if isinstance(document, dict) and (name := text_in(document, "uuid")):
            created = time_ms(document.get("created_at"))
            yield Record(
                id=f"document/{name}",
                key=f"claude.ai/{project}/{text_in(document, 'filename') or name}",
                content=text_in(document, "content") or "",
                tags=("claude.ai", project),
                created=created,
                updated=created,
            )


SOURCE: Final = MemorySource("claude.ai's data export: conversations, memories, projects", lambda: (), _read)
