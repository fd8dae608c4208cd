"""One request to the daemon as a value: the encoding of its parts and the reading of its reply. No I/O."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cache, update_wrapper
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from agentctx.client.decode import decode, failure_of, parse
from agentctx.client.transport import HttpReply
from agentctx.errors import InvalidInput
from agentctx.wire.protocol import API_PREFIX

T = TypeVar("T")
W = TypeVar("W")

_SUCCESS = range(200, 300)
JSON = MappingProxyType({"Content-Type": "application/json"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ApiCall(NamedTuple, Generic[T]):
    """One request, and how to read its reply.

    `repeatable`: it is idempotent, so it may be retried when its reply is lost.
    `is_probe`: it asks about the daemon's current state, so it does not wait for the daemon to be ready.
    `takes_s`: the seconds the daemon is asked to wait before it answers.
    `then`: makes the next call from the answer, and that one's answer is the result.
    """

    method: str
    path: str
    read: Callable[[HttpReply], T]
    body: bytes | None = None
    headers: Mapping[str, str] = _NOTHING
    repeatable: bool = False
    is_probe: bool = False
    takes_s: float = 0.0
    then: Callable[[Any], ApiCall[T]] | None = None


def read_call(path: str, kind: type[W], query: Mapping[str, Any] = _NOTHING) -> ApiCall[W]:
    return ApiCall("GET", f"{API_PREFIX}/{path}{query_string(query)}", reader(kind), repeatable=True)


def query_call(path: str, kind: type[W], request: Any, *, takes_s: float = 0.0) -> ApiCall[W]:
    """Return a read whose parameters are too large for a query string and go in the body."""
    return write_call("POST", path, kind, request, takes_s=takes_s)._replace(repeatable=True)


def write_call(
    method: str, path: str, kind: type[W], request: Any = None, *, takes_s: float = 0.0
) -> ApiCall[W]:
    path, read = f"{API_PREFIX}/{path}", reader(kind)
    if request is None:
        return ApiCall(method, path, read, takes_s=takes_s)
    return ApiCall(method, path, read, encoded(present(request)), JSON, takes_s=takes_s)


def documented(method: Callable[..., Any], call: Callable[..., ApiCall[Any]]) -> None:
    """Give a client's method the name, docstring and signature of the call it sends, and its return type."""
    update_wrapper(method, call)
    signature = inspect.signature(call)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [own, *signature.parameters.values()]
    answer = signature.return_annotation.removeprefix("ApiCall[").removesuffix("]")
    vars(method)["__signature__"] = signature.replace(parameters=parameters, return_annotation=answer)


@cache
def options_of(call: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of all arguments of a call, including its `**options`."""
    from agentctx.client import options

    names: list[str] = []
    for name, parameter in inspect.signature(call).parameters.items():
        is_one = parameter.kind is not parameter.VAR_KEYWORD
        kind = None if is_one else getattr(options, parameter.annotation[len("Unpack[") : -1])
        names += [name] if is_one else kind.__annotations__
    return tuple(names)


def reader(kind: type[W]) -> Callable[[HttpReply], W]:
    def read(reply: HttpReply) -> W:
        return decode(kind, parse(_succeeded(reply)))

    return read


def _succeeded(reply: HttpReply) -> HttpReply:
    if not is_success(reply):
        raise failure_of(reply)
    return reply


def is_success(reply: HttpReply) -> bool:
    return reply.status in _SUCCESS


def read_text(reply: HttpReply) -> str:
    return _succeeded(reply).body.decode("utf-8", "replace")


def segment(entry_id: str) -> str:
    # "", "." and ".." would turn the path into that of another route.
    if not entry_id.strip("."):
        raise InvalidInput(f"Invalid entry id {entry_id!r}.", hint="`agentctx list` shows the ids.")
    from urllib.parse import quote

    return quote(_utf8(entry_id), safe="")


def query_string(options: Mapping[str, Any]) -> str:
    pairs = [
        (name, _utf8(str(item).lower() if isinstance(item, bool) else str(item)))
        for name, value in options.items()
        if value is not None
        for item in (value if isinstance(value, list) else [value])
    ]
    if not pairs:
        return ""
    from urllib.parse import urlencode

    return f"?{urlencode(pairs)}"


def present(request: Any) -> dict[str, Any]:
    """Return the fields of a wire dataclass that are set."""
    kind: Any = type(request)
    return {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
        for name in _field_names(kind)
        if (value := getattr(request, name)) is not None
    }


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encoded(value: Any) -> bytes:
    try:
        return _utf8(_ENCODE(value))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The request cannot be encoded as JSON: {error}.") from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The text is not valid Unicode: a lone surrogate at position {error.start}.",
            hint="Decode it with the right encoding first.",
        ) from error
