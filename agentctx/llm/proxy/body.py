"""Bodies of requests: bytes in, bytes with blocks out. Pure, so that it runs in any process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agentctx.errors import InvalidInput, TooLarge
from agentctx.llm.conversation import Conversation
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.injection import InjectionRequest, ParsedCall
from agentctx.llm.proxy.vendors import Headers
from agentctx.wire.json_values import has_too_many_values
from agentctx.wire.protocol import InjectionPosition

MAX_VALUES: Final = 200_000
"""Limit for a body that takes context: 20,000 messages of 10 values are more than any model reads, and take
about 100 MB when parsed.
"""

_DIGESTS: Final = frozenset({b"content-md5", b"content-digest", b"digest"})


class JsonBody:
    """The body of one request, in UTF-8, as a `ModelCall`. Call `asked` before `with_blocks`."""

    def __init__(self, dialect: Dialect, body: bytes) -> None:
        self._dialect = dialect
        self.body = body
        self._call: ParsedCall | None = None

    async def read(self) -> InjectionRequest:
        return self.asked()

    async def inject(self, position: InjectionPosition, given: Conversation, new: str | None) -> bytes:
        return self.with_blocks(position, given, new)

    def asked(self) -> InjectionRequest:
        """Return what the body asks for.

        Raises:
            InvalidInput: the body is not a JSON object.
            TooLarge: the body has more than `MAX_VALUES` values.
        """
        self._call = ParsedCall(self._dialect, parsed_body(self.body))
        return self._call.asked()

    def with_blocks(self, position: InjectionPosition, given: Conversation, new: str | None) -> bytes:
        """Return the body with its blocks, or the original bytes if no block is added.

        Raises:
            InvalidInput: the body has a value that JSON cannot represent, such as a number beyond a double.
        """
        call = self._call or ParsedCall(self._dialect, parsed_body(self.body))
        changed = call.with_blocks(position, given, new)
        return self.body if changed is call.body else written_body(changed)


def is_sealed(headers: Headers) -> bool:
    """Return whether the body is compressed or signed, and so passed on unread."""
    return any(
        (name == b"content-encoding" and value.strip().lower() != b"identity")
        or (name == b"authorization" and value.startswith(b"AWS4-"))
        or name in _DIGESTS
        for name, value in headers
    )


def parsed_body(data: bytes) -> Mapping[str, Any]:
    """Parse the bytes as a JSON object.

    Raises:
        InvalidInput: the bytes are not a JSON object.
        TooLarge: the object has more than `MAX_VALUES` values.
    """
    try:
        text = data.decode()
        if has_too_many_values(text, MAX_VALUES):
            raise TooLarge(f"The request body contains more than {MAX_VALUES} values.")
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable() from None
    if not isinstance(body, dict):
        raise _unreadable()
    return body


def written_body(body: Mapping[str, Any]) -> bytes:
    """Serialise to JSON in UTF-8, preserving every value; half a surrogate pair stays an escape.

    Raises:
        InvalidInput: the body has a value that JSON cannot represent, such as a number beyond a double.
    """
    try:
        return _dumped(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _dumped(body, ensure_ascii=True).encode()
    except ValueError:
        raise InvalidInput("The request body contains a number that is not valid JSON.") from None


def _dumped(body: Mapping[str, Any], *, ensure_ascii: bool) -> str:
    return json.dumps(body, ensure_ascii=ensure_ascii, allow_nan=False, separators=(",", ":"))


def _unreadable() -> InvalidInput:
    return InvalidInput("The request body is not a JSON object in UTF-8.")
