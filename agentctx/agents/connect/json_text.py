"""Edits JSON as text; all other bytes stay unchanged, including comments and trailing commas. No I/O.

A path is a sequence of member names and list indices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

JsonPath = Sequence[str | int]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_SCALAR: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_COMMENT: Final = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n*]*\*/(?=[ \t]*\n))")
_LINE_END: Final = re.compile(r"[ \t]*,?[ \t]*\n")
_MAX_DEPTH: Final = 200
_MAX_COMMENTED_CHARS: Final = 1 << 18
"""Longest text with comments or trailing commas, of which a second reads about a million characters."""


class JsonUnreadable(Exception):
    """The text is not JSON, with or without comments."""


@dataclass(frozen=True)
class JsonNode:
    """A value and its position in the text."""

    text: str = field(repr=False)
    value: Any
    start: int
    end: int
    depth: int = 0

    @cached_property
    def items(self) -> dict[str | int, JsonItem]:
        """The items of an object or list, read when they are asked for: most of a large file never is."""
        is_container = isinstance(self.value, dict | list) and self.start < self.end
        return _items(self.text, self.start, self.depth)[0] if is_container else {}


class JsonItem(NamedTuple):
    """A member or an element. It extends from the start of its key or element to the end of its value."""

    start: int
    node: JsonNode


@lru_cache(maxsize=2)
def parse(text: str) -> JsonNode:
    """Parse a document; an empty one is an empty object.

    Raises:
        JsonUnreadable: the text is not JSON, contains a duplicate member, or is long and not plain JSON.
    """
    start = _skip_blank(text, 0)
    if start == len(text):
        return JsonNode(text, {}, start, start)
    if len(text) > _MAX_COMMENTED_CHARS and _decoded(text, start) is None:
        raise JsonUnreadable(f"it is not plain JSON, and longer than {_MAX_COMMENTED_CHARS:,} characters")
    node = _value(text, start, 0)
    if (end := _skip_blank(text, node.end)) != len(text):
        raise _unreadable(text, end)
    return node


def find(node: JsonNode, path: JsonPath) -> JsonNode | None:
    """Return the value at a path, or None."""
    for step in path:
        item = node.items.get(step)
        if item is None:
            return None
        node = item.node
    return node


def put(text: str, path: JsonPath, value: Any) -> str:
    """Return the text with a member set; missing objects along the path are created.

    Raises:
        JsonUnreadable: the text is not JSON, or a value along the path is not an object.
    """
    if not text.strip():
        text = "{}\n"
    node = parse(text)
    existing = find(node, path)
    if existing is not None:
        if json.dumps(existing.value, sort_keys=True) == json.dumps(value, sort_keys=True):  # true is not 1
            return text
        return text[: existing.start] + _serialize(value, _indent(text), len(path)) + text[existing.end :]
    for depth, name in enumerate(path[:-1]):
        deeper = node.items.get(name)
        if deeper is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _add_item(text, node, path[: depth + 1], value)
        node = deeper.node
    return _add_item(text, node, path, value)


def append(text: str, path: JsonPath, value: Any) -> str:
    """Return the text with an element appended to a list; the list and objects along the path are created.

    Raises:
        JsonUnreadable: the text is not JSON, or the value at the path is not a list.
    """
    existing = find(parse(text), path) if text.strip() else None
    if existing is None:
        return put(text, path, [value])
    if not isinstance(existing.value, list):
        raise JsonUnreadable(f"{_dotted(path)} is not a list")
    return _add_item(text, existing, [*path, len(existing.value)], value)


def remove(text: str, path: JsonPath) -> str:
    """Remove a member or element and its comma; unchanged if it does not exist."""
    node = parse(text)
    parent = find(node, path[:-1])
    if parent is None or path[-1] not in parent.items:
        return text
    if len(parent.items) == 1:
        return _remove_only_item(text, parent)
    item = parent.items[path[-1]]
    begin = len(text[: item.start].rstrip())
    # Cut from before the white space, unless a preceding comment needs its newline.
    if _LINE_END.match(text, item.node.end) is None and "\n" in text[begin : item.start]:
        begin = item.start
    comma = _skip_blank(text, item.node.end)
    if text[comma : comma + 1] == ",":
        return text[:begin] + text[item.node.end : comma] + text[comma + 1 :]
    names = list(parent.items)
    before = _skip_blank(text, parent.items[names[names.index(path[-1]) - 1]].node.end)
    return text[:before] + text[before + 1 : begin] + text[item.node.end :]


def _remove_only_item(text: str, parent: JsonNode) -> str:
    """Remove the only item of a container and its comma; comments are kept."""
    (item,) = parent.items.values()
    after = _skip_blank(text, item.node.end)
    comma = text[after : after + 1] == ","
    head = text[parent.start + 1 : item.start]
    tail = text[item.node.end : after] + text[after + comma : parent.end - 1]
    kept = "" if not (head + tail).strip() else head + tail
    return text[: parent.start + 1] + kept + text[parent.end - 1 :]


def _add_item(text: str, parent: JsonNode, path: JsonPath, value: Any) -> str:
    name, depth = path[-1], len(path) - 1
    container, kind = (dict, "an object") if isinstance(name, str) else (list, "a list")
    if not isinstance(parent.value, container):
        location = f"in its place, as the value of {_dotted(path[:-1])!r}" if depth else "in its place"
        raise JsonUnreadable(f"{name!r} belongs in {kind}, but {_kind_of(parent.value)} is {location}")
    unit = _indent(text)
    inner = "\n" + unit * (depth + 1)
    key = f"{json.dumps(name)}: " if isinstance(name, str) else ""
    written = inner + key + _serialize(value, unit, depth + 1)
    if not parent.items:
        body = text[parent.start + 1 : parent.end - 1]
        closing = "" if "\n" in body[len(body.rstrip()) :] else "\n" + unit * depth
        kept = body.rstrip()
        rest = body[len(kept) :] if not closing else ""
        return text[: parent.start + 1] + kept + written + rest + closing + text[parent.end - 1 :]
    last = list(parent.items.values())[-1].node.end
    comma = _skip_blank(text, last)
    has_comma = text[comma : comma + 1] == ","
    begin = comma + 1 if has_comma else last
    line_end = _COMMENT.match(text, begin)
    at = line_end.end() if line_end else begin
    closing = "" if "\n" in text[last : parent.end] else "\n" + unit * depth
    joint = "" if has_comma else ","
    return text[:begin] + joint + text[begin:at] + written + "," * has_comma + closing + text[at:]


def _serialize(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + unit * depth)


def _indent(text: str) -> str:
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _value(text: str, start: int, depth: int) -> JsonNode:
    if depth > _MAX_DEPTH:
        raise JsonUnreadable("it is nested too deeply")
    if text[start : start + 1] in {"{", "["}:
        return _container(text, start, depth)
    if text[start : start + 1] == '"':
        value, end = _string(text, start)
        return JsonNode(text, value, start, end)
    match = _SCALAR.match(text, start)
    if match is None:
        raise _unreadable(text, start)
    return JsonNode(text, json.loads(match[0]), start, match.end())


def _container(text: str, start: int, depth: int) -> JsonNode:
    if decoded := _decoded(text, start):
        value, end = decoded
        return JsonNode(text, value, start, end, depth)
    items, end = _items(text, start, depth)
    values = [item.node.value for item in items.values()]
    value = dict(zip(items, values, strict=True)) if text[start] == "{" else values
    return JsonNode(text, value, start, end, depth)


def _decoded(text: str, start: int) -> tuple[Any, int] | None:
    """Return a value of plain JSON and its end, thirty times faster; None for anything else."""
    try:
        return _PLAIN.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a member occurs twice")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_PLAIN: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _items(text: str, start: int, depth: int) -> tuple[dict[str | int, JsonItem], int]:
    """Return the items of the object or list at `start`, and its end."""
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    items: dict[str | int, JsonItem] = {}
    at = _skip_blank(text, start + 1)
    while text[at : at + 1] != closing:
        begin = at
        name: str | int = len(items)
        if is_object:
            name, end = _string(text, at)
            colon = _skip_blank(text, end)
            if text[colon : colon + 1] != ":":
                raise _unreadable(text, colon)
            at = _skip_blank(text, colon + 1)
            if name in items:
                raise JsonUnreadable(f"{name!r} occurs twice")
        items[name] = JsonItem(begin, _value(text, at, depth + 1))
        at = _skip_blank(text, items[name].node.end)
        if text[at : at + 1] == ",":
            at = _skip_blank(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _unreadable(text, at)
    return items, at + 1


def _string(text: str, at: int) -> tuple[str, int]:
    """Return a string and where it ends."""
    if text[at : at + 1] == '"' and (decoded := _decoded(text, at)):
        return decoded
    raise _unreadable(text, at)


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _unreadable(text: str, at: int) -> JsonUnreadable:
    return JsonUnreadable(f"line {text.count(chr(10), 0, at) + 1} is not JSON")


def _kind_of(value: Any) -> str:
    """Name the JSON type of a value for an error message."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _dotted(path: JsonPath) -> str:
    return ".".join(map(str, path))
