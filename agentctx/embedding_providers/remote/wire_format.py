"""What a wire format is, and how the numbers in a reply become vectors. No I/O."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import Disposition, ProviderFailed

_MOST_TOKENS: Final = 10**9
"""No request has so many; a larger number is nonsense."""


class WireFormat(Protocol):
    """How one kind of provider is asked, and how its answer is read."""

    @property
    def path(self) -> str:
        """Of the request, after the base URL; begins with a slash."""
        ...

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        """The JSON of a request. No text is empty. Questions are marked only where that is configured."""
        ...

    def tokens(self, reply: Any) -> int | None:
        """How many tokens the reply says were billed; None when it does not."""
        ...

    def vectors(self, reply: Any) -> Vectors:
        """The vectors of the reply in the order of the texts, neither counted nor scaled yet.

        Raises:
            ProviderFailed: the reply has another shape than documented (retry), or a vector is not like the
                others (split).
        """
        ...


def garbled(what: str) -> ProviderFailed:
    """A reply that is not what the provider documents. It is tried again: proxies and restarts do this."""
    return ProviderFailed(
        f"The provider's reply cannot be used: {what}",
        hint="If this keeps happening, check that embedding.base_url and embedding.provider match.",
    )


def list_in(reply: Any, *path: str) -> list[Any]:
    """The list at the path of keys. Raises `ProviderFailed` (retry) where there is none."""
    value = reply
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, list):
        raise garbled(f"it has no list {'.'.join(path)!r}")
    return value


def count_in(reply: Any, *path: str) -> int | None:
    """The positive number at the path of keys; None where there is none."""
    value = reply
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    is_count = type(value) in {int, float} and 0 < value < _MOST_TOKENS
    return math.ceil(value) if is_count else None


def by_index(items: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The items sorted by their `index`; as they are where they carry none.

    Raises:
        ProviderFailed: an index is missing, twice there, or no number (retry).
    """
    if not all(isinstance(item, dict) for item in items):
        raise garbled("an embedding is not an object")
    if not any("index" in item for item in items):
        return list(items)
    places = {item.get("index"): item for item in items if type(item.get("index")) is int}
    if len(places) != len(items) or any(place not in places for place in range(len(items))):
        raise garbled("the indexes of its embeddings are not 0, 1, 2 …")
    return [places[place] for place in range(len(items))]


def matrix(rows: Sequence[Any]) -> Vectors:
    """Rows of numbers, each a list or base64 of little-endian float32, as float32 `(rows, dimension)`.

    Raises:
        ProviderFailed: a row is not a vector (retry); a row is empty or of another length (split, which finds
            the text that causes it).
    """
    if not rows:
        return np.empty((0, 0), np.float32)
    vectors = [_row(row) for row in rows]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1 or 0 in lengths:
        raise ProviderFailed(
            f"The provider returned vectors of different lengths, or empty ones: {sorted(lengths)}.",
            disposition=Disposition.SPLIT,
        )
    return np.stack(vectors)


def _row(row: Any) -> Vectors:
    try:
        if isinstance(row, str):
            return np.frombuffer(base64.b64decode(row, validate=True), dtype="<f4").astype(np.float32)
        if isinstance(row, list) and all(type(number) in _NUMBERS for number in row):
            # A number too large for float32 becomes infinite and is refused as such later.
            with np.errstate(over="ignore"):
                return np.asarray(row, dtype=np.float64).astype(np.float32)
    except (binascii.Error, ValueError, OverflowError):
        pass
    raise garbled("a vector is neither a list of numbers nor base64 of float32")


_NUMBERS = frozenset({float, int, type(None)})
"""None is how some servers write NaN; it becomes one, and is refused like one."""
