"""Adds a table to TOML text and removes it, keeping every other byte. No I/O."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any


class TomlUnreadable(Exception):
    """The text is not TOML, or has the table in a form that cannot be edited."""


def table_in(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path, or None.

    Raises:
        TomlUnreadable: the text is not TOML.
    """
    value: Any = _parsed(text)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put_table(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str:
    """Write a table of strings and string lists into the existing table, or append a new one.

    Other items of an existing table are kept.

    Raises:
        TomlUnreadable: the text is not TOML, or has the table in another form.
    """
    before = table_in(text, path)
    merged = {**(before if isinstance(before, dict) else {}), **table}
    if before == merged:
        return text
    # JSON's escapes are also valid TOML.
    written = "".join(f"{name} = {json.dumps(item, ensure_ascii=False)}\n" for name, item in table.items())
    if before is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        edited = f"{text}{gap}[{'.'.join(path)}]\n{written}"
    else:
        header, end = _find_table(text, path)
        items = re.split(r"""^(?=[ \t]*[\w"'-]+[ \t]*=)""", text[header.end() : end], flags=re.MULTILINE)
        kept = [item for item in items if item.partition("=")[0].strip().strip("\"'") not in table]
        edited = text[: header.end()] + written + "".join(kept) + text[end:]
    try:
        if table_in(edited, path) == merged and equal_except(text, edited, path):
            return edited
    except TomlUnreadable:
        pass  # the original is valid, so the addition does not fit, for example next to an inline table
    raise _not_editable(path)


def remove_table(text: str, path: Sequence[str]) -> str:
    """Remove a table and its subtables; unchanged if it does not exist.

    Raises:
        TomlUnreadable: the text is not TOML, or has the table in another form.
    """
    edited = text
    while table_in(edited, path) is not None:
        header, end = _find_table(edited, path, with_inner=True)
        start = header.start()
        edited = edited[:start].removesuffix("\n") + edited[end:] if start else edited[end:]
    if not equal_except(text, edited, path):
        raise _not_editable(path)
    return edited


def _find_table(text: str, path: Sequence[str], *, with_inner: bool = False) -> tuple[re.Match[str], int]:
    """Find the first header of a table, or with `with_inner` of a subtable, and the end of its items."""
    names = r"\s*\.\s*".join(rf"""(?:{each}|"{each}"|'{each}')""" for each in map(re.escape, path))
    inner = r"(?:\s*\.[^\]\n]*)?" if with_inner else ""
    header = re.search(rf"^[ \t]*\[\s*{names}\s*{inner}\][^\n]*\n?", text, re.MULTILINE)
    if header is None:
        raise _not_editable(path)
    following = re.compile(r"^[ \t]*(?:\[|#|$)", re.MULTILINE).search(text, header.end())
    return header, following.start() if following else len(text)


def _not_editable(path: Sequence[str]) -> TomlUnreadable:
    tables = ".".join([*path[:-1], "NAME"])
    return TomlUnreadable(f"{path[0]} is in a form that cannot be extended; write [{tables}] tables")


def equal_except(one: str, other: str, path: Sequence[str]) -> bool:
    """Whether two TOML documents are equal, apart from the value at the path. Raises `TomlUnreadable`."""
    return bool(_without(_parsed(one), path) == _without(_parsed(other), path))


def _without(value: Any, path: Sequence[str]) -> Any:
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = {name: item for name, item in value.items() if name != path[0]}
    kept = _without(value[path[0]], path[1:]) if len(path) > 1 else {}
    return rest | ({path[0]: kept} if kept else {})


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlUnreadable(str(error)) from None
