"""mem0: its store on this machine, or JSON: what `get_all` returned, or `export --to mem0` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agentctx_importers.files import opened
from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_elements import elements
from agentctx_importers.mem0_format import item_of
from agentctx_importers.records import Item, MemorySource, RefusedItem, Unreadable
from agentctx_importers.restricted_pickle import point_of

_STORAGE: Final = "storage.sqlite"
_POINTS: Final = "SELECT rowid, point FROM points ORDER BY rowid DESC"
_OWN_COLLECTIONS: Final = ("mem0migrations",)
"""Collections that have no memories."""


def _usual() -> Sequence[Path]:
    return (Path("/tmp/qdrant"), Path.home() / ".mem0" / "qdrant")  # noqa: S108 - mem0's default


def _read(path: Path) -> Iterator[Item]:
    """Yield the memories of a folder of Qdrant's, of one collection's `storage.sqlite`, or of a JSON file."""
    if path.is_dir():
        if not (stores := _stores(path)):
            raise Unreadable(f"{path} has no {_STORAGE}.", hint="Give the folder of Qdrant, or a JSON file.")
        for store in stores:
            yield from _store(store)
    elif path.name == _STORAGE:
        yield from _store(path)
    else:
        yield from _json(path)


def _stores(path: Path) -> list[Path]:
    files = sorted([path / _STORAGE, *path.glob(f"*/{_STORAGE}"), *path.glob(f"collection/*/{_STORAGE}")])
    return [each for each in files if each.is_file() and each.parent.name not in _OWN_COLLECTIONS]


def _json(path: Path) -> Iterator[Item]:
    with opened(path) as file:
        for number, element in enumerate(elements(file), start=1):
            if element.member in {None, "results", "memories"} and element.value is not None:
                yield item_of(f"{path.name}: element {number}", element.value)
            elif element.value is None:
                yield RefusedItem(f"{path.name}: element {number}", "It cannot be read as JSON.")


def _store(file: Path) -> Iterator[Item]:
    """Yield the points of a collection, latest first: Qdrant may have old copies of one."""
    with opened_database(file) as database:
        for row, data in database.rows(_POINTS, "points"):
            where = f"{file.parent.name}: point {row}"
            if (point := point_of(data)) is None:
                yield RefusedItem(where, "It is not a point of Qdrant; nothing of it was run.")
            else:
                yield item_of(where, {**point[1], "id": str(point[0])})


SOURCE: Final = MemorySource(
    "mem0: its store in Qdrant's local mode, or JSON of get_all", _usual, _read, _stores
)
