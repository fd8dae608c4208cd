"""The lines of an export: JSON objects, first the header, then one for each entry. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any, Final, get_args

from agentctx import __version__
from agentctx.errors import InvalidInput
from agentctx.wire import EntryView, ExportedEntry, FileState, ImportEntry, Quarantine

FORMAT: Final = 1
_FORMAT_NAME: Final = "agentctx_export"
_TEXTS: Final = ("id", "namespace", "collection", "content", "created", "updated")
_OPTIONAL: Final = ("key", "session", "agent", "expires")
_UNREADABLE: Final = re.compile("[\ud800-\udfff]")
"""Matches the surrogates that `surrogateescape` makes of bytes that are not UTF-8."""
_OMITTED_FIELDS: Final = ("live", "principal", "embedding")
"""Fields that mean nothing in another installation."""


def header_line(*, history: bool, vectors: bool) -> str:
    """Return the header: the format's version, and whether history and vectors are included."""
    header = {_FORMAT_NAME: FORMAT, "by": f"agentctx {__version__}", "history": history, "vectors": vectors}
    return json.dumps(header)


def entry_line(exported: ExportedEntry) -> str:
    """Return an entry as one line; `versions` are older, oldest first; `chunks` are pairs `[start, end]`."""
    value = _plain(exported.entry)
    value["chunks"] = exported.chunks
    if exported.versions:
        value["versions"] = [_plain(version) for version in exported.versions]
    if exported.vectors is not None:
        value["vectors"] = {"fingerprint": exported.fingerprint, "float32": exported.vectors}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(entry: EntryView) -> dict[str, Any]:
    return {name: value for name, value in asdict(entry).items() if name not in _OMITTED_FIELDS}


def read_header(line: str) -> None:
    """Check the header. Raises `InvalidInput` if the line is not one, or its format is unknown."""
    try:
        value = _object(line)
    except InvalidInput:
        value = {}
    if _FORMAT_NAME not in value:
        raise InvalidInput(
            "Not an agentctx export file.",
            hint="Give a file written by `agentctx export`. For other memories see docs/how-to/import.md.",
        )
    if value[_FORMAT_NAME] != FORMAT:
        raise InvalidInput(
            f"Unsupported export format {value[_FORMAT_NAME]!r}; this version reads {FORMAT}.",
            hint="Use a newer agentctx.",
        )


def read_entry(line: str) -> list[ImportEntry]:
    """Return the versions of an entry, oldest first. Raises `InvalidInput` without any text of the entry."""
    value = _object(line)
    older = value.get("versions", [])
    if not isinstance(older, list):
        raise InvalidInput("`versions` is not a list.")
    versions = [*map(_version, older), _version(value)]
    held = value.get("quarantined")
    if held not in {None, *get_args(Quarantine)}:
        raise InvalidInput("`quarantined` is not a known reason.")
    return [replace(version, quarantined=held) for version in versions]


def _version(value: Any) -> ImportEntry:
    if not isinstance(value, dict):
        raise InvalidInput("A version is not an object.")
    for name in _TEXTS:
        if not isinstance(value.get(name), str):
            raise InvalidInput(f"`{name}` is missing or not a string.")
    for name in _OPTIONAL:
        if not isinstance(value.get(name), str | None):
            raise InvalidInput(f"`{name}` is not a string.")
    if not isinstance(value.get("attributes"), dict):
        raise InvalidInput("`attributes` is missing or not an object.")
    derived_from = value.get("derived_from") or []
    if not isinstance(derived_from, list) or not all(isinstance(each, str) for each in derived_from):
        raise InvalidInput("`derived_from` is not a list of ids.")
    given: dict[str, Any] = {name: value.get(name) for name in (*_TEXTS, *_OPTIONAL)}
    return ImportEntry(
        **given,
        attributes=value["attributes"],
        derived_from=derived_from or None,
        file_state=_file_state(value.get("file_state")),
    )


def _file_state(value: Any) -> FileState | None:
    try:
        return FileState(**value) if value else None
    except TypeError:
        raise InvalidInput("`file_state` is malformed.") from None


def _object(line: str) -> dict[str, Any]:
    if not line.isascii() and _UNREADABLE.search(line):
        raise InvalidInput("Not valid UTF-8.")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidInput("Not valid JSON.") from None
    if not isinstance(value, dict):
        raise InvalidInput("Not a JSON object.")
    return value
