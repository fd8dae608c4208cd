"""Bodies of requests: bytes to a mapping and back. What cannot be read is not touched. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentctx.proxy.vendors import Headers
from agentctx.wire.json_values import holds_too_many


def readable_body(data: bytes, headers: Headers) -> Mapping[str, Any] | None:
    """The JSON object of a request in UTF-8; None for anything else, a compressed one included, and for one
    of so many values that reading it would hold up everybody else.
    """
    if any(name == b"content-encoding" and value.strip().lower() != b"identity" for name, value in headers):
        return None
    try:
        text = data.decode()
        body = None if holds_too_many(text) else json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def written_body(body: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8, every value as it was; half a surrogate pair stays an escape.

    Raises:
        ValueError: it holds what JSON cannot, such as a number beyond a double.
    """
    try:
        return _dumped(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _dumped(body, ensure_ascii=True).encode()


def _dumped(body: Mapping[str, Any], *, ensure_ascii: bool) -> str:
    return json.dumps(body, ensure_ascii=ensure_ascii, allow_nan=False, separators=(",", ":"))
