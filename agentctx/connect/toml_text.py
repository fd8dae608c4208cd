"""Adding a table to TOML as text, and taking it out; every other byte stays. No I/O."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any


class TomlUnreadable(Exception):
    """The text is not TOML, or holds the table in a form that cannot be edited."""


def table_in(text: str, path: Sequence[str]) -> Any:
    """The value at a path; None when there is none.

    Raises:
        TomlUnreadable: it is not TOML.
    """
    value: Any = _parsed(text)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put_table(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str:
    """The text with a table of strings and lists of strings at its end, or in the place of the former one.

    Raises:
        TomlUnreadable: it is not TOML, or the table stands there in another form.
    """
    before = table_in(text, path)
    if before == table:
        return text
    written = f"[{'.'.join(path)}]\n" + "".join(f"{name} = {_dumped(item)}\n" for name, item in table.items())
    if before is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        edited = f"{text}{gap}{written}"
    else:
        start, end = _extent(text, path)
        edited = text[:start] + written + text[end:]
    if table_in(edited, path) != table or not _same_apart(text, edited, path):
        raise TomlUnreadable(f"{'.'.join(path)} is there in a form that cannot be edited")
    return edited


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without a table; unchanged when there is none.

    Raises:
        TomlUnreadable: it is not TOML, or the table stands there in another form.
    """
    if table_in(text, path) is None:
        return text
    start, end = _extent(text, path)
    edited = text[:start].removesuffix("\n") + text[end:] if start else text[end:]
    if table_in(edited, path) is not None or not _same_apart(text, edited, path):
        raise TomlUnreadable(f"{'.'.join(path)} is there in a form that cannot be edited")
    return edited


def _extent(text: str, path: Sequence[str]) -> tuple[int, int]:
    names = r"\s*\.\s*".join(map(re.escape, path))
    header = re.compile(rf"^\[\s*{names}\s*\][^\n]*\n?", re.MULTILINE)
    found = header.search(text)
    if found is None:
        raise TomlUnreadable(f"{'.'.join(path)} is there in a form that cannot be edited")
    following = re.compile(r"^[ \t]*(?:\[|#|$)", re.MULTILINE).search(text, found.end())
    end = following.start() if following else len(text)
    return found.start(), end


def _same_apart(one: str, other: str, path: Sequence[str]) -> bool:
    """Whether two texts say the same but for what is at the path."""
    return bool(_without(_parsed(one), path) == _without(_parsed(other), path))


def _without(value: Any, path: Sequence[str]) -> Any:
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = {name: item for name, item in value.items() if name != path[0]}
    kept = _without(value[path[0]], path[1:]) if len(path) > 1 else {}
    return rest | ({path[0]: kept} if kept else {})


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlUnreadable(str(error)) from None


def _dumped(value: Any) -> str:
    """A string or a list of strings; JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
