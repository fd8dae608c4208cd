"""The memory of MCP's reference server `server-memory`: a graph as JSON lines, an entity or relation each.

It has no ids and no times: an entity is known by its name, and as old as the file.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import lines_of, modified_ms
from agentctx_importers.json_values import json_object
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem, Unreadable

MAX_RELATIONS: Final = 200_000
"""Relations that are held while the entities are read."""
_NAMES: Final = ("memory.jsonl", "memory.json")


def _usual() -> Sequence[Path]:
    return [Path(named)] if (named := os.environ.get("MEMORY_FILE_PATH")) else []


def _read(path: Path) -> Iterator[Item]:
    """Yield one knowledge entry for each entity: its observations, and its relations as lines."""
    file = _file_in(path)
    changed = modified_ms(file)
    relations = _relations(file)
    for item in _objects(file):
        if isinstance(item, RefusedItem):
            yield item
        elif item[1].get("type") == "entity":
            yield _record(*item, relations, file, changed)
        elif item[1].get("type") != "relation":
            yield RefusedItem(item[0], "It is neither an entity nor a relation.")


def _file_in(path: Path) -> Path:
    if path.is_dir():
        for name in _NAMES:
            if (file := path / name).is_file():
                return file
        raise Unreadable(
            f"{path} has no {_NAMES[0]}.", hint="Give the file that MEMORY_FILE_PATH names for the server."
        )
    return path


def _objects(file: Path) -> Iterator[tuple[str, dict[str, Any]] | RefusedItem]:
    for line in lines_of(file):
        if isinstance(line, RefusedItem):
            yield line
            continue
        where = f"{file.name}:{line[0]}"
        value = json_object(line[1])
        yield RefusedItem(where, "It is not a JSON object.") if value is None else (where, value)


def _relations(file: Path) -> dict[str, list[str]]:
    """Return the relations of each entity as lines `type → other entity`."""
    found: dict[str, list[str]] = defaultdict(list)
    count = 0
    for item in _objects(file):
        if isinstance(item, RefusedItem) or item[1].get("type") != "relation":
            continue
        if (count := count + 1) > MAX_RELATIONS:
            raise Unreadable(f"{file} has more than {MAX_RELATIONS:,} relations.", hint="Split the file.")
        kind, to = item[1].get("relationType"), item[1].get("to")
        if isinstance(kind, str) and isinstance(to, str):
            found[str(item[1].get("from"))].append(f"{kind} → {to}")
    return found


def _record(
    where: str, entity: dict[str, Any], relations: dict[str, list[str]], file: Path, changed: int
) -> Item:
    name, observations = entity.get("name"), entity.get("observations")
    if not isinstance(name, str) or not name.strip() or not isinstance(observations, list):
        return RefusedItem(where, "The entity has no name or no list of observations.")
    kind = entity.get("entityType")
    lines = [each for each in observations if isinstance(each, str)]
    return Record(
        id=name,
        key=f"server-memory/{name}",
        content="\n".join([name, *lines, *relations.get(name, ())]),
        tags=("server-memory", *([kind] if isinstance(kind, str) else [])),
        source=str(file),
        created=changed,
        is_dated=False,
        updated=changed,
    )


SOURCE: Final = MemorySource("MCP's reference server server-memory (memory.jsonl)", _usual, _read)
