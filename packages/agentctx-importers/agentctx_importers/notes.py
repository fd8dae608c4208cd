"""Folders of Markdown notes: basic-memory's projects and Obsidian's vaults. A note becomes one entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import files_below, modified_ms, text_of
from agentctx_importers.front_matter import split_front_matter
from agentctx_importers.json_values import json_object, text_in, time_ms
from agentctx_importers.markdown_text import without_code
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem

_TAG: Final = re.compile(r"(?<![\w/#&\[(])#(\w[\w/-]*)")
_CREATED: Final = ("created", "date", "created_at")
_UPDATED: Final = ("updated", "modified", "updated_at")


def _read(kind: str, path: Path) -> Iterator[Item]:
    root = path if path.is_dir() else path.parent
    for file in _files(path) if path.is_dir() else [path]:
        text = text_of(file)
        yield text if isinstance(text, RefusedItem) else _note(kind, root, file, text.replace("\r\n", "\n"))


def _files(folder: Path) -> Iterator[Path]:
    return files_below(folder, lambda name: name.endswith(".md"))


def _note(kind: str, root: Path, file: Path, text: str) -> Record:
    """Return a note, which keeps its links as text. The name of the folder keeps two folders apart."""
    head, body = _split(text)
    permalink = text_in(head, "permalink") if kind == "basic-memory" else None
    key = permalink or f"{root.name}/{file.relative_to(root).with_suffix('').as_posix()}"
    title, changed, created = text_in(head, "title") or file.stem, modified_ms(file), _time(head, _CREATED)
    is_titled = body.lstrip().startswith("# ")
    return Record(
        id=key,
        key=key,
        content=body.strip() if is_titled or not body.strip() else f"# {title}\n\n{body.strip()}",
        tags=(kind, *_tags(head, body)),
        source=str(file),
        created=created or changed,
        is_dated=bool(created),
        updated=_time(head, _UPDATED) or changed,
    )


def _split(text: str) -> tuple[dict[str, Any], str]:
    """Return front matter and text; basic-memory has put its own before that of some notes."""
    head, body = split_front_matter(text)
    second, rest = split_front_matter(body.lstrip()) if head else ({}, "")
    return ({**second, **head}, rest) if second else (head, body)


def _tags(head: dict[str, Any], body: str) -> list[str]:
    """Return the tags of the front matter, in any of its forms, and those of the text outside of code."""
    given: list[str] = []
    for name in ("tags", "tag"):
        value = head.get(name, [])
        given += [str(each) for each in value] if isinstance(value, list) else re.split(r"[,\s]+", str(value))
    words = (match for match in _TAG.findall(without_code(body)) if not match.isdigit())
    return [tag for each in (*given, *words) if (tag := each.strip().lstrip("#"))]


def _time(head: dict[str, Any], names: Sequence[str]) -> int | None:
    return next((ms for name in names if (ms := time_ms(head.get(name))) is not None), None)


def _projects() -> Sequence[Path]:
    """Return the folders of basic-memory's projects."""
    known = _config(Path.home() / ".basic-memory" / "config.json").get("projects")
    places = known.values() if isinstance(known, dict) else ()
    paths = (each.get("path") if isinstance(each, dict) else each for each in places)
    return [Path(each) for each in paths if isinstance(each, str)] or [Path.home() / "basic-memory"]


def _vaults() -> Sequence[Path]:
    """Return the folders that Obsidian has opened."""
    places = (".config/obsidian", "Library/Application Support/obsidian")
    known = [_config(Path.home() / place / "obsidian.json").get("vaults") for place in places]
    vaults = (vault for each in known if isinstance(each, dict) for vault in each.values())
    paths = (each.get("path") for each in vaults if isinstance(each, dict))
    return [Path(each) for each in paths if isinstance(each, str)]


def _config(file: Path) -> dict[str, Any]:
    text = text_of(file) if file.is_file() else ""
    return {} if isinstance(text, RefusedItem) else json_object(text) or {}


BASIC_MEMORY: Final = MemorySource(
    "basic-memory: its projects of Markdown notes", _projects, partial(_read, "basic-memory"), _files
)
OBSIDIAN: Final = MemorySource("Obsidian: the notes of a vault", _vaults, partial(_read, "obsidian"), _files)
