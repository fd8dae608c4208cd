"""mcp-memory-service: its database, or the JSON that its exporter writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import opened
from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_elements import elements
from agentctx_importers.json_values import json_object, text_in, texts_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem, Unreadable

_FILE: Final = "sqlite_vec.db"
_MEMORIES: Final = (
    "SELECT content_hash, content, tags, memory_type, metadata, created_at, updated_at FROM memories"
)
_LIVE: Final = f"{_MEMORIES} WHERE deleted_at IS NULL AND coalesce(superseded_by, '') = '' ORDER BY id"
_CATEGORIES: Final = {"decision": "rule", "rule": "rule", "preference": "preference", "pattern": "pattern"}


def _usual() -> Sequence[Path]:
    places = (".local/share/mcp-memory", "Library/Application Support/mcp-memory")
    return [Path.home() / place / _FILE for place in places]


def _read(path: Path) -> Iterator[Item]:
    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        raise Unreadable(f"{path} has no {_FILE}.", hint="Give the database, or a JSON file of the exporter.")
    if file.suffix == ".json":
        yield from _json(file)
        return
    with opened_database(file) as database:
        for name, text, tags, kind, metadata, created, updated in database.rows(_LIVE, "memories"):
            known = json_object(metadata) if isinstance(metadata, str) else None
            listed = [each.strip() for each in tags.split(",")] if isinstance(tags, str) else []
            yield _record(name, text, listed, kind, known or {}, created, updated)


def _json(file: Path) -> Iterator[Item]:
    with opened(file) as stream:
        for number, element in enumerate(elements(stream), start=1):
            if element.member not in {None, "memories"}:
                continue
            value = element.value
            if not isinstance(value, dict):
                yield RefusedItem(f"{file.name}: element {number}", "It is not a memory.")
                continue
            metadata = value.get("metadata")
            yield _record(
                value.get("content_hash"),
                value.get("content"),
                texts_in(value.get("tags")),
                value.get("memory_type"),
                metadata if isinstance(metadata, dict) else {},
                value.get("created_at"),
                value.get("updated_at"),
            )


def _record(
    name: Any, text: Any, tags: list[str], kind: Any, metadata: dict[str, Any], created: Any, updated: Any
) -> Item:
    if not isinstance(name, str) or not name or not isinstance(text, str):
        return RefusedItem(str(name)[:80], "It has no hash or no text.")
    of_tag = next((tag.removeprefix("agent:") for tag in tags if tag.startswith("agent:")), None)
    memory_type = kind if isinstance(kind, str) else ""
    return Record(
        id=name,
        key=f"mcp-memory/{name[:12]}",
        content=text,
        tags=("mcp-memory-service", *tags, *([] if memory_type in {"", *_CATEGORIES} else [memory_type])),
        category=_CATEGORIES.get(memory_type),
        agent=text_in(metadata, "agent", "agent_id", "source_agent") or of_tag or None,
        created=time_ms(created),
        updated=time_ms(updated),
    )


SOURCE: Final = MemorySource("mcp-memory-service: its database or an exported JSON file", _usual, _read)
