"""Decodes JSON into the wire's dataclasses, without pydantic and without I/O.

Unknown fields are skipped, so that an older client can read a newer daemon's replies; a field that is missing
or has the wrong type is an error that names it.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agentctx import errors, wire
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError

T = TypeVar("T")
_Read: TypeAlias = Callable[[Any, Any, str], Any]
_CLASSES: dict[str, type[AgentctxError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AgentctxError)
}


class UnreadableReply(AgentctxError):
    """The daemon's answer is not what this client expects."""

    default_hint = (
        "Client and daemon may be of different versions: compare `agentctx --version` and `agentctx status`."
    )


def decode(kind: type[T], value: Any) -> T:
    """Decode a JSON value into an instance of `kind`, a wire dataclass.

    Raises:
        UnreadableReply: a field is missing or has the wrong type; the message says which.
    """
    return cast("T", _decode(kind, value, "reply"))


def _decode(kind: Any, value: Any, where: str) -> Any:
    read, of = _reading(kind)
    return read(of, value, where)


@cache
def _reading(kind: Any) -> tuple[_Read, Any]:
    """Return the function that decodes a type, and its first argument."""
    if is_dataclass(kind):
        return _decode_dataclass, kind
    if read := _READERS.get(get_origin(kind)):
        return read, get_args(kind)
    return _decode_scalar, kind


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    known: dict[str, Any] = {}
    for name, field_kind, read, of, is_required in _schema(kind):
        if name in value:
            item = value[name]
            # Most fields are scalars of exactly their type, which need no path for an error.
            known[name] = item if type(item) is field_kind else read(of, item, f"{where}.{name}")
        elif is_required:
            raise UnreadableReply(f"The daemon's answer lacks {where}.{name}.")
    return kind(**known)


@cache
def _schema(kind: Any) -> tuple[tuple[str, Any, _Read, Any, bool], ...]:
    """Return the name and type of each field, how to decode it, and whether it has no default."""
    hints = get_type_hints(kind)
    return tuple(
        (
            field.name,
            hints[field.name],
            *_reading(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    )


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if type(value) in kinds:
        return value
    failures: list[UnreadableReply] = []
    for kind in kinds:
        try:
            return _decode(kind, value, where)
        except UnreadableReply as failure:
            failures.append(failure)
    raise failures[0]


def _decode_literal(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    # A newer daemon may know more choices: only the type is checked.
    _expect(isinstance(value, type(choices[0])), f"a {type(choices[0]).__name__}", value, where)
    return value


def _decode_list(kinds: tuple[Any, ...], value: Any, where: str) -> list[Any]:
    _expect(isinstance(value, list), "a list", value, where)
    read, of = _reading(kinds[0])
    return [read(of, item, f"{where}[{index}]") for index, item in enumerate(value)]


def _decode_dict(kinds: tuple[Any, ...], value: Any, where: str) -> dict[str, Any]:
    _expect(isinstance(value, dict), "an object", value, where)
    _, kind = kinds
    return {name: _decode(kind, item, f"{where}.{name}") for name, item in value.items()}


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    _expect(fits, "null" if kind is types.NoneType else f"a {kind.__name__}", value, where)
    return value


def _expect(fits: bool, expected: str, value: Any, where: str) -> None:
    if not fits:
        raise UnreadableReply(f"The daemon's answer has {type(value).__name__} at {where}, not {expected}.")


_READERS: dict[Any, _Read] = {
    Union: _decode_union,
    types.UnionType: _decode_union,
    Literal: _decode_literal,
    list: _decode_list,
    dict: _decode_dict,
}


def error_of(body: wire.ErrorBody) -> AgentctxError:
    """Return the exception for a wire error; an unknown code is kept on the base class."""
    kind = _CLASSES.get(body.code, AgentctxError)
    error = kind(body.message, hint=body.hint)
    error.code = body.code
    error.request_id = body.request_id or ""
    return error


def failure_of(reply: HttpReply) -> AgentctxError:
    """Return the error of an unsuccessful reply, even one not in our format (the server's plain 400)."""
    try:
        return error_of(decode(wire.ErrorReply, parse(reply)).error)
    except UnreadableReply:
        return AgentctxError(
            f"The daemon answered HTTP {reply.status} without an error body.",
            hint="See the daemon's log, and check that agentctx listens on this socket.",
        )


def parse(reply: HttpReply) -> Any:
    """Parse the JSON of a reply.

    Raises:
        UnreadableReply: the body is not JSON.
    """
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise UnreadableReply(f"The daemon answered HTTP {reply.status} with something not JSON.") from error
