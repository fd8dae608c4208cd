"""The vendors' APIs for the proxy: which calls take context, and which header carries the key. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.registry import find_dialect

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as in ASGI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The vendor behind one `/proxy/{name}/…`."""

    name: str
    calls: tuple[tuple[re.Pattern[str], Dialect], ...]
    """Paths, as at the vendor, of the calls that can take context."""
    key_headers: tuple[str, ...]
    """Headers in which clients send the key; the first one is used for the operator's key."""

    def dialect_of(self, method: str, path: str) -> Dialect | None:
        """Return the dialect of a request's body, or None if the body is only passed on."""
        if method != "POST":
            return None
        return next((dialect for pattern, dialect in self.calls if pattern.fullmatch(path)), None)

    def model_of(self, path: str) -> str:
        """Return the model that the path names; empty if it names none."""
        match = _GEMINI_MODEL.fullmatch(path)
        return match[1] if match and self.name == "gemini" else ""

    def has_key(self, headers: Headers) -> bool:
        """Return whether the request has its own key."""
        names = {name for name, _ in headers}
        return any(name.encode() in names for name in self.key_headers)

    def key_line(self, key: str) -> tuple[bytes, bytes]:
        """Return the header with the operator's key."""
        name = self.key_headers[0]
        return name.encode(), (f"Bearer {key}" if name == "authorization" else key).encode()


def _call(path: str, dialect: str) -> tuple[re.Pattern[str], Dialect]:
    return re.compile(path), find_dialect(dialect)


_GEMINI_MODEL: Final = re.compile(r".*/models/([^/:]+):[a-zA-Z]+")
_CHAT: Final = r"(/[^/]+)*/chat/completions"

VENDORS: Final[dict[str, Vendor]] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="openai",
            calls=(_call(_CHAT, "openai_chat"), _call(r"(/[^/]+)*/responses", "openai_responses")),
            key_headers=("authorization",),
        ),
        Vendor(
            name="anthropic",
            calls=(_call(r"(/v1)?/messages", "anthropic_messages"),),
            key_headers=("x-api-key", "authorization"),
        ),
        Vendor(
            name="gemini",
            calls=(_call(r"(/v1[a-z0-9]*)?/models/[^/:]+:(g|streamG)enerateContent", "gemini"),),
            key_headers=("x-goog-api-key", "authorization"),
        ),
        Vendor(
            name="ollama",
            calls=(_call(r"/api/chat", "ollama"), _call(r"/v1/chat/completions", "openai_chat")),
            key_headers=("authorization",),
        ),
    )
}
