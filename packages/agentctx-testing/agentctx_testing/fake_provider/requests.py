"""Requests and refusals in a form that is independent of the provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any]
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """A request for the vectors of texts. A `dimension` of None means the model's default."""

    model: str
    texts: tuple[str, ...]
    dimension: int | None = None
    as_base64: bool = False
    unit_length: bool = True
    """Whether the provider rescales a truncated vector to length 1."""

    @property
    def tokens(self) -> int:
        return sum(map(count_tokens, self.texts))


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A request to score documents and return the best `top` of them, or all."""

    model: str
    query: str
    documents: tuple[str, ...]
    top: int | None = None

    @property
    def tokens(self) -> int:
        return sum(map(count_tokens, (self.query, *self.documents)))


@dataclass(frozen=True, slots=True)
class FakeRefusal:
    """An error reply before it takes a provider's format. `retry_info_s` is Google's hint in the body."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    retry_info_s: float | None = None


class RefusalError(Exception):
    """Raised to answer the request with an error."""

    def __init__(self, refusal: FakeRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def count_tokens(text: str) -> int:
    """Estimate the tokens of the text at four bytes of UTF-8 per token."""
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def require(holds: object, message: str, *, status: int = 400, **fields: Any) -> None:
    """Raise `RefusalError` unless `holds` is true. `fields` are further fields of `FakeRefusal`."""
    if not holds:
        raise RefusalError(FakeRefusal(status, message, **fields))


def text_field(payload: Payload, name: str, *, status: int = 400) -> str:
    """Return a field that must be a non-empty string. Raises `RefusalError`."""
    value = payload.get(name)
    require(isinstance(value, str) and value, f"{name} is required", status=status, param=name)
    return str(value)


def texts_field(payload: Payload, name: str, *, status: int = 400) -> tuple[str, ...]:
    """Return a field that must be a string or a list of strings. Raises `RefusalError`."""
    value = payload.get(name)
    texts: Sequence[object] = [value] if isinstance(value, str) else value if isinstance(value, list) else ()
    given = isinstance(value, str | list) and all(isinstance(text, str) for text in texts)
    require(given, f"{name} must be a string or a list of strings", status=status, param=name)
    return tuple(map(str, texts))


def number_field(payload: Payload, name: str, *, status: int = 400) -> int | None:
    """Return a field that must be an integer or absent. Raises `RefusalError`."""
    value = payload.get(name)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    require(value is None or is_number, f"{name} must be a number", status=status, param=name)
    return value
