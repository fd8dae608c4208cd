"""Tracks which source each value comes from. No I/O.

A source provides single values, each with its path (`("embedding", "model")`) and its origin. Sources are
listed from lowest to highest precedence, so the last one that sets a path wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

KeyPath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from. `name` is the file, variable, credential or flag."""

    kind: Literal["default", "file", "credential", "env", "flag"]
    name: str = ""

    def __str__(self) -> str:
        separator = ":" if self.kind == "file" else " "
        return f"{self.kind}{separator}{self.name}" if self.name else self.kind


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """One value as provided by a source."""

    path: KeyPath
    value: Any
    origin: Origin

    @property
    def key(self) -> str:
        return ".".join(self.path)


def flag_values(flags: Mapping[str, Any]) -> list[SourcedValue]:
    """Return the values set by command line flags, which are named after settings; None means not used."""
    return [
        SourcedValue((name,), value, Origin("flag", f"--{name.replace('_', '-')}"))
        for name, value in flags.items()
        if value is not None
    ]


def table_values(values: Mapping[str, Any], origin: Origin) -> list[SourcedValue]:
    """Return the leaves of nested tables. An empty table is a leaf, because it declares a collection."""
    return [SourcedValue(path, value, origin) for path, value in _leaves(values)]


def merge(values: Iterable[SourcedValue]) -> dict[str, Any]:
    """Merge all values into one nested table; later ones win.

    A plain value in place of a table hides the values below it, so that validation reports it.
    """
    result: dict[str, Any] = {}
    for sourced in values:
        table = result
        for part in sourced.path[:-1]:
            below = table.get(part)
            table[part] = table = dict(below) if isinstance(below, dict) else {}
        if sourced.value != {} or not isinstance(table.get(sourced.path[-1]), dict):
            table[sourced.path[-1]] = sourced.value
    return result


def origin_of(path: KeyPath, values: Sequence[SourcedValue]) -> Origin:
    """Return the origin of the value at a path: the last source that sets it, a part of it or its table."""
    for sourced in reversed(values):
        shorter = min(len(sourced.path), len(path))
        if sourced.path[:shorter] == path[:shorter]:
            return sourced.origin
    return DEFAULT


def _leaves(values: Mapping[str, Any], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value
