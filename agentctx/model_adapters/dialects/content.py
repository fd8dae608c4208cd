"""Read values of any type, and rebuild the parts of a body that get a block. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
"""A request in its API's format, parsed from JSON."""

_LISTS = (list, tuple)
SEPARATOR = "\n\n"
"""Separates a client's text from a block in APIs that only have strings."""


def listed(value: Any) -> Sequence[Any]:
    """Return a list's items; empty for any other value."""
    return value if isinstance(value, _LISTS) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object unchanged; an empty one for any other value."""
    # The first test is for speed: `Mapping` is an abstract class, and most bodies consist of dicts.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def word(value: Any) -> str:
    """Return a string unchanged; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def part_texts(content: Any, kinds: Collection[str]) -> Iterator[str]:
    """Yield the texts of a content: a bare string, or the parts whose `type` is in `kinds`."""
    if isinstance(content, str):
        yield content
    for part in listed(content):
        if isinstance(part, str):
            yield part
        elif word(mapping(part).get("type")) in kinds and isinstance(part.get("text"), str):
            yield part["text"]


def replaced(body: Body, name: str, value: Any) -> dict[str, Any]:
    """Return a copy of the body with one field changed; other values are shared."""
    return {**body, name: value}


def with_item(items: Sequence[Any], index: int, item: Any) -> list[Any]:
    """Return a copy of the list with one item changed; other items are shared."""
    return [*items[:index], item, *items[index + 1 :]]


def inserted(items: Sequence[Any], index: int, item: Any) -> list[Any]:
    """Return a copy of the list with an item inserted before `index`."""
    return [*items[:index], item, *items[index:]]


def with_part(content: Any, block: str, kind: str) -> list[Any] | None:
    """Append the block to a content as a separate part; None if the content cannot have one.

    A bare string becomes a part. `kind` is the API's `type` of a text part.
    """
    part = {"type": kind, "text": block}
    if isinstance(content, str) and content:
        return [{"type": kind, "text": content}, part]
    if isinstance(content, list | tuple) and content:
        return [*content, part]
    return None


def appended(text: str, block: str) -> str:
    """Return the text followed by the block, or the block alone."""
    return f"{text}{SEPARATOR}{block}" if text else block
