"""Reading what may be anything, and rebuilding the parts of a body that get a block. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
"""A request as its API has it, read from JSON."""

_LISTS = (list, tuple)
SEPARATOR = "\n\n"
"""Between a client's text and a block where an API knows only strings."""


def listed(value: Any) -> Sequence[Any]:
    """The items of a list; none of anything else."""
    return value if isinstance(value, _LISTS) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    """An object as it is; an empty one for anything else."""
    # The first test is for speed: `Mapping` is an abstract class, and most bodies are of dicts.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def word(value: Any) -> str:
    """A string as it is; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def part_texts(content: Any, kinds: Collection[str]) -> Iterator[str]:
    """The texts of a content: a bare string, or the parts whose `type` is one of `kinds`."""
    if isinstance(content, str):
        yield content
    for part in listed(content):
        if isinstance(part, str):
            yield part
        elif word(mapping(part).get("type")) in kinds and isinstance(part.get("text"), str):
            yield part["text"]


def replaced(body: Body, name: str, value: Any) -> dict[str, Any]:
    """The body with one field changed; the others are shared."""
    return {**body, name: value}


def with_item(items: Sequence[Any], index: int, item: Any) -> list[Any]:
    """The list with one item changed; the others are shared."""
    return [*items[:index], item, *items[index + 1 :]]


def inserted(items: Sequence[Any], index: int, item: Any) -> list[Any]:
    """The list with one more item before `index`."""
    return [*items[:index], item, *items[index:]]


def with_part(content: Any, block: str, kind: str) -> list[Any] | None:
    """A content with the block as a part of its own at the end; None where it can have none.

    A bare string becomes a part. `kind` is the API's `type` of a text part.
    """
    part = {"type": kind, "text": block}
    if isinstance(content, str) and content:
        return [{"type": kind, "text": content}, part]
    if isinstance(content, list | tuple) and content:
        return [*content, part]
    return None


def appended(text: str, block: str) -> str:
    """The block after a text, or alone."""
    return f"{text}{SEPARATOR}{block}" if text else block
