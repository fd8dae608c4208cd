"""Where secrets are cut out of texts before anything is stored, queued, sent or logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Redactor(Protocol):
    """Cuts secrets out of one text."""

    def __call__(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text without its secrets, and the kinds that were found."""
        ...


def no_redaction(text: str) -> tuple[str, tuple[str, ...]]:
    """Keeps every text as it is."""
    return text, ()


def redact_fields(fields: Mapping[str, Any], redactor: Redactor) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Every text of the fields redacted, lists of texts included; kinds in the order found."""
    redacted: dict[str, Any] = {}
    kinds: dict[str, None] = {}
    for name, value in fields.items():
        if isinstance(value, str):
            redacted[name], found = redactor(value)
            kinds.update(dict.fromkeys(found))
        elif isinstance(value, list):
            pairs = [redactor(item) if isinstance(item, str) else (item, ()) for item in value]
            redacted[name] = [item for item, _ in pairs]
            kinds.update(dict.fromkeys(kind for _, found in pairs for kind in found))
        else:
            redacted[name] = value
    return redacted, tuple(kinds)
