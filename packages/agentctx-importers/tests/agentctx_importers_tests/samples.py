"""A small memory of each kind, and how many entries it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx_importers.front_matter import written

FIXTURES: Final = Path(__file__).with_name("fixtures")


class Sample(NamedTuple):
    """`make` writes the memory into a folder and returns the path to import."""

    make: Callable[[Path], Path]
    entries: int


def write_lines(file: Path, *values: Any) -> Path:
    file.write_text("".join(f"{json.dumps(each)}\n" for each in values), encoding="utf-8")
    return file


def _rules(folder: Path) -> Path:
    (folder / "CLAUDE.md").write_text("# Build\n\nUse make.\n\n## Tests\n\nRun them with pytest.\n")
    (folder / ".cursor" / "rules").mkdir(parents=True)
    (folder / ".cursor" / "rules" / "style.mdc").write_text(
        "---\ndescription: Style\nglobs: '*.py'\n---\nNo one-letter names.\n"
    )
    return folder


def _server_memory(folder: Path) -> Path:
    return write_lines(
        folder / "memory.jsonl",
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Likes trains", "Is 40"]},
        {"type": "entity", "name": "Basel", "entityType": "city", "observations": ["On the Rhine"]},
        {"type": "relation", "from": "Ann", "to": "Basel", "relationType": "lives in"},
    )


def _markdown(folder: Path) -> Path:
    for number in (1, 2):
        head = {
            "type": "knowledge",
            "id": f"01a201d0-1506-73cf-bf84-00000000000{number}",
            "namespace": "default",
            "key": f"window {number}",
            "created": "2026-01-01T00:00:00.000Z",
            "timestamp": "2026-01-02T00:00:00.000Z",
        }
        (folder / f"{number}.md").write_text(f"{written(head)}\nTuesdays.\n", "utf-8")
    (folder / "index.md").write_text("# Index\n")
    return folder


def _mem0(folder: Path) -> Path:
    return FIXTURES / "mem0"


SAMPLES: Final[Mapping[str, Sample]] = {
    "markdown": Sample(_markdown, 2),
    "mem0": Sample(_mem0, 4),
    "rules": Sample(_rules, 3),
    "server-memory": Sample(_server_memory, 2),
}
