"""Which source a value came from. No I/O.

A source gives single values, each with its path (`("embedding", "model")`) and its origin. Sources are
listed from the weakest to the strongest, so the last that speaks of a path decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

KeyPath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from. `name` is the file, the variable, the credential or the flag."""

    kind: Literal["default", "file", "credential", "env", "flag"]
    name: str = ""

    def __str__(self) -> str:
        separator = ":" if self.kind == "file" else " "
        return f"{self.kind}{separator}{self.name}" if self.name else self.kind


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Given:
    """One value as a source gives it."""

    path: KeyPath
    value: Any
    origin: Origin

    @property
    def key(self) -> str:
        return ".".join(self.path)


def given_by_flags(flags: Mapping[str, Any]) -> list[Given]:
    """Flags are named after settings; None is a flag that was not used."""
    return [
        Given((name,), value, Origin("flag", f"--{name.replace('_', '-')}"))
        for name, value in flags.items()
        if value is not None
    ]


def given_by_table(values: Mapping[str, Any], origin: Origin) -> list[Given]:
    """The leaves of nested tables. An empty table is a leaf: it declares a collection."""
    return [Given(path, value, origin) for path, value in _leaves(values)]


def merged(given: Iterable[Given]) -> dict[str, Any]:
    """All values as one nested table; later ones win.

    A value where a table should be stays and hides what was below, so that validation names it.
    """
    result: dict[str, Any] = {}
    for each in given:
        table = result
        for part in each.path[:-1]:
            below = table.get(part)
            table[part] = table = dict(below) if isinstance(below, dict) else {}
        if each.value != {} or not isinstance(table.get(each.path[-1]), dict):
            table[each.path[-1]] = each.value
    return result


def origin_of(path: KeyPath, given: Sequence[Given]) -> Origin:
    """Who decided the value at a path: the last source that names it, a part of it or the table it is in."""
    for each in reversed(given):
        shorter = min(len(each.path), len(path))
        if each.path[:shorter] == path[:shorter]:
            return each.origin
    return DEFAULT


def _leaves(values: Mapping[str, Any], prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value
