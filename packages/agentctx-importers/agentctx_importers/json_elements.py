"""Reads large JSON documents element by element, holding one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from agentctx_importers.files import ByteStream
from agentctx_importers.json_values import json_object, json_value
from agentctx_importers.records import Unreadable

MAX_ELEMENT_BYTES: Final = 64 * 1024 * 1024
_STEP: Final = 256 * 1024
_OUTSIDE: Final = re.compile(rb'["\[{\]},]')
_WITHIN_TEXT: Final = re.compile(rb'"|\\(?:.|\Z)', re.DOTALL)


class Element(NamedTuple):
    """An element of a list, or a member of the outermost object. `value` is None if it cannot be read."""

    member: str | None
    """The member of the outermost object that it is, or is in; None in a document that is a list."""
    value: Any
    is_listed: bool = True
    """Whether it is in a list."""
    size: int = 0
    """Bytes."""


def elements(stream: ByteStream) -> Iterator[Element]:
    """Yield the elements of a document that is a list, or an object with lists, each on its own.

    Raises `Unreadable` if it is neither.
    """
    scanner = _Scanner()
    while data := stream.read(_STEP):
        yield from scanner.feed(data)
    if scanner.depth or not scanner.has_begun:
        raise Unreadable("The file is not complete JSON: a list or an object.", hint="Export it again.")


def values(stream: ByteStream) -> Iterator[Any]:
    """Yield the elements of a document that is a list, or the one object that a document is.

    Raises `Unreadable` if it is neither, or an object that is larger than an element may be.
    """
    document: dict[str, Any] = {}
    size = 0
    for element in elements(stream):
        if element.member is None:
            yield element.value
            continue
        if (size := size + element.size) > MAX_ELEMENT_BYTES:
            raise Unreadable("The file is one object that is too large.", hint="Export it again, as a list.")
        if not element.is_listed:
            document[element.member] = element.value
        elif isinstance(listed := document.setdefault(element.member, []), list):
            listed.append(element.value)
    if document:
        yield document


class _Scanner:
    """Finds the elements by brackets, commas and quotes."""

    def __init__(self) -> None:
        self.depth = 0
        self.has_begun = False
        self._level = 1
        """The depth at which the elements are."""
        self._is_object = False
        self._member: str | None = None
        self._item = bytearray()
        self._is_over = self._in_text = self._is_escaped = False

    def feed(self, data: bytes) -> Iterator[Element]:
        """Yield the elements that end in these bytes."""
        position, start = int(self._is_escaped), 0
        self._is_escaped = False
        while match := (_WITHIN_TEXT if self._in_text else _OUTSIDE).search(data, position):
            position, mark = match.end(), match[0]
            if mark == b'"':
                self._in_text = not self._in_text
            elif self._in_text:
                self._is_escaped = len(mark) == 1
            elif mark in b"[{":
                start = self._open(mark, data, start, match)
            elif self.depth == self._level:
                self._hold(data[start : match.start()])
                start = position
                yield from self._element()
            if mark in b"]}" and not self._in_text:
                start = self._close(start, position)
        self._hold(data[start:])

    def _open(self, mark: bytes, data: bytes, start: int, match: re.Match[bytes]) -> int:
        self.depth += 1
        if self.depth == 1:
            self._is_object, self.has_begun = mark == b"{", True
            return match.end()
        if self.depth > 2 or self._level == 2 or not self._is_object or mark == b"{":
            return start
        self._hold(data[start : match.start()])
        name = json_value(bytes(self._item).strip()[:-1])
        self._member, self._level = name if isinstance(name, str) else None, 2
        self._item.clear()
        return match.end()

    def _close(self, start: int, position: int) -> int:
        self.depth -= 1
        if self.depth < 0:
            raise Unreadable("The file is not JSON: it has a bracket too many.", hint="Export it again.")
        if self.depth >= self._level:
            return start
        self._level = 1
        return position

    def _hold(self, data: bytes) -> None:
        if not self.depth or self._is_over:
            return
        self._is_over = len(self._item) + len(data) > MAX_ELEMENT_BYTES
        if self._is_over:
            self._item.clear()
        else:
            self._item += data

    def _element(self) -> Iterator[Element]:
        item, is_over = bytes(self._item).strip(), self._is_over
        self._item.clear()
        self._is_over = False
        if is_over:
            yield Element(self._member, None)
        elif item and self._is_object and self._level == 1:
            members = json_object(b"{" + item + b"}")
            known = [(None, None)] if members is None else members.items()
            yield from (Element(name, value, is_listed=False, size=len(item)) for name, value in known)
        elif item:
            yield Element(self._member, json_value(item), size=len(item))
