"""A stable hash of JSON content. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

CACHE_MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Clients move these markers from turn to turn; they are not content."""

_HEX_BYTES = 16


def fingerprint(*values: Any) -> str:
    """Return 32 hexadecimal digits, equal for equal values regardless of the order of fields.

    Cache markers are ignored. Accepts any depth and any type, including types that JSON lacks.
    """
    digest = hashlib.blake2b(digest_size=_HEX_BYTES)
    # Uses a stack instead of recursion, because a body may be nested deeper than Python's call limit.
    waiting: list[Any] = list(reversed(values))
    while waiting:
        value = waiting.pop()
        children = _children(value)
        # The kind and the number of children delimit each value, so that different shapes never collide.
        head = f"{_kind(value)}{len(children)}:" if children is not None else _scalar(value)
        digest.update(head.encode("utf-8", "surrogatepass"))
        waiting.extend(reversed(children or ()))
    return digest.hexdigest()


def _kind(value: Any) -> str:
    return "object" if isinstance(value, Mapping) else "list"


def _children(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return None
    if isinstance(value, Mapping):
        names = sorted((name for name in value if name not in CACHE_MARKERS), key=str)
        return [child for name in names for child in (name, value[name])]
    return list(value) if isinstance(value, list | tuple) else None


def _scalar(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return f"{type(value).__name__}{len(text)}:{text}"
