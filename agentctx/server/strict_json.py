"""Request bodies: strict JSON, then strict validation into the wire dataclasses.

JSON parsers disagree about duplicate keys, NaN, lone surrogates and huge numbers, and a value that one parser
accepts can break another one further down. All of these are refused before any value is used.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from agentctx.errors import InvalidInput, TooLarge
from agentctx.server.problems import describe_validation_errors, field_path, quoted
from agentctx.wire.json_values import MAX_VALUES, has_too_many_values

T = TypeVar("T")

MAX_DEPTH = 32
MAX_FIELDS = 4_000
"""Limit of the fields of one object; real requests have at most some 30."""

_MAX_EXPLAINED = 5_000
"""Listing an error costs 2.5 us; more errors than this are only counted."""

_SCHEMA_HINT = "GET /openapi.json describes every field."
_INT64 = 2**63


def decode(raw: bytes, adapter: TypeAdapter[T]) -> T:
    """Decode the body as the adapter's type. No coercion: `"5"` is not 5, `true` is not 1.

    Raises `InvalidInput` for anything but one strict JSON value of this shape, `TooLarge` for a body with
    more than `MAX_VALUES` values.
    """
    check(raw)
    try:
        return adapter.validate_json(raw)
    except ValidationError as error:
        raise InvalidInput(_explain(error), hint=_SCHEMA_HINT) from None


def check(raw: bytes) -> None:
    """Raise `InvalidInput` or `TooLarge` unless the bytes are one strict JSON value."""
    if not raw.strip():
        raise InvalidInput("The request has no body.", hint="Send a JSON object. " + _SCHEMA_HINT)
    text = _text(raw)
    if has_too_many_values(text):
        raise TooLarge(f"The body contains more than {MAX_VALUES} values.", hint="Send several requests.")
    value = _parse(text)
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        _check_values(value)


def _explain(error: ValidationError) -> str:
    if (count := error.error_count()) > _MAX_EXPLAINED:
        return f"The body has {count} fields that are unknown or of the wrong type."
    errors = error.errors(include_url=False, include_input=False)
    return describe_validation_errors([{**detail, "loc": ("body", *detail["loc"])} for detail in errors])


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The body is not valid UTF-8 at byte {error.start}.", hint="Encode the JSON as UTF-8."
        ) from None


def _parse(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidInput:
    return InvalidInput(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_FIELDS:
        raise InvalidInput(f"An object has more than {MAX_FIELDS} fields.")
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise InvalidInput(
            f"The field {quoted(twice)} appears twice in one object.", hint="Send each field once."
        )
    return value


def _constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not valid JSON.", hint="Omit the field, or send a finite number.")


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise InvalidInput("A number is out of range.", hint="Send a finite number.")
    return value


def _int(digits: str) -> int:
    # 20 characters hold every 64-bit integer; checked first, since int() of many digits is slow.
    if len(digits) > 20 or not -_INT64 <= (value := int(digits)) < _INT64:
        raise InvalidInput("An integer is out of range.", hint="Integers must fit in 64 bits.")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)


def _check_values(root: Any) -> None:
    """Check the depth and the texts. Only an escape can make one invalid: the parser refuses a plain NUL, and
    UTF-8 encodes no surrogate. A NUL in one of many entries is left to the checks of that entry.
    """
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(root, ())]
    while waiting:
        value, path = waiting.pop()
        depth = len(path) + 1
        if isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise _too_deep()
            if isinstance(value, dict):
                for key in value:
                    _check_text(key, ())
            items = value.items() if isinstance(value, dict) else enumerate(value)
            waiting.extend((item, (*path, name)) for name, item in items)


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    is_of_many = len(path) > 2 and path[0] == "entries"
    where = f"The text at {field_path(('body', *path))}" if path else "A text"
    if "\0" in text and not is_of_many:
        raise InvalidInput(f"{where} contains a NUL character.", hint="Remove \\u0000 from it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{where} contains a lone surrogate.",
            hint="Escape it as two \\u escapes, or send UTF-8.",
        ) from None
