"""Validation errors in plain words. They name fields and rules, and never repeat the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.plain_values import NOT_SHOWN, is_plain
from agentctx.wire.wording import counted

MAX_LISTED = 5
_MAX_NAME_CHARS = 40

_KINDS = {"body": "", "query": "parameter ", "path": "parameter ", "header": "header "}

_WORDS = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is not a known field",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dataclass_type": "must be an object",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has characters that are not allowed",
}


def describe_validation_errors(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe pydantic's errors in one sentence: "`tags[0]` must be a string; `foo` is not a known field."

    A location begins with the part of the request, as in FastAPI: `body`, `query`, `header` or `path`.
    """
    listed = []
    for error in errors[:MAX_LISTED]:
        rule = _WORDS.get(error["type"], "is not valid").format_map(error.get("ctx") or {})
        listed.append(f"{field_path(error['loc'])} {rule}")
    if len(errors) > MAX_LISTED:
        listed.append(f"and {counted(len(errors) - MAX_LISTED, 'more problem')}")
    return "; ".join(listed) + "."


def quoted(name: str) -> str:
    """Return a name from a request, shortened and printable; a placeholder if it could be a secret."""
    if not is_plain(name):
        return NOT_SHOWN
    return f"`{name if len(name) <= _MAX_NAME_CHARS else name[:_MAX_NAME_CHARS] + '…'}`"


def field_path(location: Sequence[Any]) -> str:
    """Return `entries[0].key` for `("body", "<many>", "entries", 0, "key")`; parts in <> are union tags."""
    where, *parts = location
    name = ""
    for part in parts:
        if isinstance(part, int):
            name += f"[{part}]"
        elif not part.startswith("<"):
            name += f".{part}" if name else part
    return f"{_KINDS[where]}{quoted(name)}" if name else "the body"
