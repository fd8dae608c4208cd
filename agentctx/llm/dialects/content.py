"""Read values of any type, and rebuild the parts of a body that get a block. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
"""A request in its API's format, parsed from JSON."""

_LISTS = (list, tuple)
SEPARATOR = "\n\n"
"""Separates a client's string from a block."""


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


def with_part(content: Any, block: str, kind: str) -> str | list[Any] | None:
    """Append the block to a content; None if the content cannot have one.

    A string stays a string, because many servers accept nothing else. A list gets a part of its own; `kind`
    is the API's `type` of a text part.
    """
    if isinstance(content, str) and content:
        return appended(content, block)
    if isinstance(content, list | tuple) and content:
        return [*content, {"type": kind, "text": block}]
    return None


def in_system_message(
    roles: Sequence[str], messages: Sequence[Any], block: str, kind: str = "text"
) -> Sequence[Any] | None:
    """Append the block to the system prompt, which is among the messages; None if it has no place there.

    Many templates refuse a second system message, or one that is not the first, so the block goes into the
    client's own: the last one at the beginning, else the first one anywhere.
    """
    leading = next((index for index, role in enumerate(roles) if role != "system"), len(roles))
    index = leading - 1 if leading else roles.index("system")
    message = mapping(messages[index])
    content = message.get("content")
    changed = block if content == "" else with_part(content, block, kind)
    return None if changed is None else with_item(messages, index, {**message, "content": changed})


def with_system_message(body: Body, roles: Sequence[str], block: str) -> Body:
    """Append the block to the system message of a body; without one, the block becomes the first message."""
    messages = listed(body.get("messages"))
    if not block or not messages:
        return body
    first = {"role": "system", "content": block}
    changed = in_system_message(roles, messages, block) if "system" in roles else [first, *messages]
    return body if changed is None else replaced(body, "messages", changed)


def appended(text: str, block: str) -> str:
    """Return the text followed by the block, or the block alone."""
    return f"{text}{SEPARATOR}{block}" if text else block
