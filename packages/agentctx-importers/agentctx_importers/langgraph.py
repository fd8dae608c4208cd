"""LangGraph's SqliteStore: the items of its long-term memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_values import json_object, text_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem

_ITEMS: Final = (
    "SELECT prefix, key, value, created_at, updated_at, expires_at FROM store ORDER BY prefix, key"
)
_TEXTS: Final = ("text", "content", "memory", "data")


def _read(path: Path) -> Iterator[Item]:
    with opened_database(path) as database:
        for prefix, name, value, created, updated, expires in database.rows(_ITEMS, "store"):
            yield _record(str(prefix), str(name), value, created, updated, expires)


def _record(prefix: str, name: str, value: Any, created: Any, updated: Any, expires: Any) -> Item:
    """Return an item; its text is the one member that is a text for people, else all of it as JSON."""
    key = "/".join([*prefix.split("."), name])
    known = json_object(value) if isinstance(value, bytes | str) else None
    if known is None:
        return RefusedItem(key, "Its value is not a JSON object.")
    kind = text_in(known, "kind", "type", "category")
    return Record(
        id=json.dumps([prefix, name]),
        key=f"langgraph/{key}",
        content=text_in(known, *_TEXTS) or json.dumps(known, ensure_ascii=False),
        tags=("langgraph", *prefix.split("."), *([kind] if kind else [])),
        created=time_ms(created),
        is_dated=False,  # each put sets it
        updated=time_ms(updated),
        expires=time_ms(expires),
    )


SOURCE: Final = MemorySource("LangGraph: the database of a SqliteStore", lambda: (), _read)
