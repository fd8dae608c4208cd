"""Bodies of requests: bytes in, bytes with blocks out; what gets no block keeps its bytes. Pure.

A body is parsed in pieces, such as messages: the parser blocks other threads for no longer than one piece
takes, and the place of each piece is known, so that it is copied and not written again.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentctx.errors import InvalidInput, TooLarge
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.injection import InjectionRequest, ParsedCall
from agentctx.llm.proxy.vendors import Headers
from agentctx.wire.json_values import has_too_many_values
from agentctx.wire.protocol import InjectionPosition

LARGE_BYTES: Final = 32 * 1024
"""A larger body is read in a thread, and large parts in pieces. This size takes half a millisecond, or up to
10 if it consists of nothing but tiny values.
"""
MAX_BYTES: Final = 16 * 1024 * 1024
"""A larger body goes out without context. One of this size takes a third of a second and 100 MB."""
MAX_VALUES: Final = 200_000
"""Limit for a body that takes context: 20,000 messages of 10 values are more than any model reads, and take
about 100 MB when parsed.
"""

_DIGESTS: Final = frozenset({b"content-md5", b"content-digest", b"digest"})
_BLANKS: Final = " \t\n\r"
_BRACKETS: Final = frozenset("{[")
_MESSAGE_DEPTH: Final = 2
"""Depth of the items of a body's lists, which include the messages."""
_PART_DEPTH: Final = 4
"""Depth of a part of a message's content, such as a picture, which is parsed as a whole."""


class JsonBody:
    """The body of one request, in UTF-8, as a `ModelCall`."""

    def __init__(self, dialect: Dialect, body: bytes) -> None:
        self._dialect = dialect
        self.body = body
        self.is_large = len(body) > LARGE_BYTES

    def read(self) -> InjectionRequest:
        """Return what the body asks for.

        Raises:
            InvalidInput: the body is not a JSON object.
            TooLarge: the body has more than `MAX_BYTES` or `MAX_VALUES`.
        """
        if len(self.body) > MAX_BYTES:
            raise TooLarge(f"The request body has more than {MAX_BYTES} bytes.")
        self._split = SplitBody(self.body)
        self._call = ParsedCall(self._dialect, self._split.fields)
        return self._call.read()

    def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> bytes:
        """Return the body with its blocks, or the original bytes if no block is added.

        Raises:
            InvalidInput: a part with a block has a number that JSON cannot represent.
        """
        changed = self._call.inject(position, given, new)
        return self.body if changed is self._split.fields else self._split.written(changed)


def is_sealed(headers: Headers) -> bool:
    """Return whether the body is compressed or signed, and so passed on unread."""
    return any(
        (name == b"content-encoding" and value.strip().lower() != b"identity")
        or (name == b"authorization" and value.startswith(b"AWS4-"))
        or name in _DIGESTS
        for name, value in headers
    )


class SplitBody:
    """A JSON object whose fields and messages, and the parts of large ones, are known by value and by place.

    Raises:
        InvalidInput: the bytes are not a JSON object in UTF-8, or an object in it has a name twice.
        TooLarge: the object has more than `MAX_VALUES` values.
    """

    def __init__(self, data: bytes) -> None:
        self._texts: dict[int, slice] = {}
        """The positions of values, by their identity: `fields` keeps all of them alive."""
        self._at = 0
        try:
            self._text = "".join(codecs.iterdecode(_pieces(data), "utf-8"))
            if has_too_many_values(self._text, MAX_VALUES):
                raise TooLarge(f"The request body contains more than {MAX_VALUES} values.")
            self.fields = self._object(0)
            if self._next():
                raise _unreadable()
        except (ValueError, RecursionError):
            raise _unreadable() from None

    def _value(self, depth: int) -> Any:
        """Read a value: what is above the messages in pieces, and what is in them if it is large."""
        kind, start = self._next(), self._at
        value: Any = None
        is_split = kind in _BRACKETS and depth < _MESSAGE_DEPTH
        if not is_split:
            value, self._at = _DECODER.raw_decode(self._text, start)
            is_split = kind in _BRACKETS and depth < _PART_DEPTH and self._at - start > LARGE_BYTES
        if is_split:
            self._at = start
            value = self._list(depth) if kind == "[" else self._object(depth)
        self._texts[id(value)] = slice(start, self._at)
        return value

    def _list(self, depth: int) -> list[Any]:
        return [self._value(depth + 1) for _ in self._members("[", "]")]

    def _object(self, depth: int) -> dict[str, Any]:
        fields: list[tuple[str, Any]] = []
        for _ in self._members("{", "}"):
            if self._next() != '"':
                raise _unreadable()
            name, self._at = _DECODER.raw_decode(self._text, self._at)
            self._take(":")
            fields.append((name, self._value(depth + 1)))
        return _unique(fields)

    def _members(self, opening: str, closing: str) -> Iterator[None]:
        """Stop at each member of the object or list that begins here, for the caller to read it."""
        self._take(opening)
        if self._next() == closing:
            self._at += 1
            return
        yield
        while self._take("," + closing) == ",":
            yield

    def _take(self, expected: str) -> str:
        found = self._next()
        if not found or found not in expected:
            raise _unreadable()
        self._at += 1
        return found

    def _next(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while (found := self._text[self._at : self._at + 1]) and found in _BLANKS:
            self._at += 1
        return found

    def written(self, changed: Any) -> bytes:
        """Return a changed copy of `fields` as JSON. What it shares with them keeps its bytes.

        Raises:
            InvalidInput: it has a number that JSON cannot represent.
        """
        if text := self._texts.get(id(changed)):
            return self._text[text].encode()
        if isinstance(changed, Mapping):
            fields = (_written(name) + b":" + self.written(value) for name, value in changed.items())
            return b"{" + b",".join(fields) + b"}"
        if isinstance(changed, list | tuple):
            return b"[" + b",".join(map(self.written, changed)) + b"]"
        return _written(changed)


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + LARGE_BYTES] for start in range(0, len(data), LARGE_BYTES))


def _unreadable() -> InvalidInput:
    return InvalidInput("The request body is not a JSON object in UTF-8.")


def _written(value: Any) -> bytes:
    """Serialise a string or a number; half a surrogate pair becomes an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()
    except ValueError:
        raise InvalidInput("The request body contains a number that JSON cannot represent.") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name occurs twice, and servers differ in which value counts")
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
