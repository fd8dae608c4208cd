"""Wire formats, and the conversion of a reply's numbers into vectors. No I/O."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import numpy as np

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import Disposition, ProviderFailed

_MAX_TOKENS: Final = 10**9
"""No request has more tokens; a larger number is nonsense."""


class WireFormat(Protocol):
    """Encodes the requests and decodes the replies of one kind of provider."""

    @property
    def path(self) -> str:
        """The path of the request after the base URL; begins with a slash."""

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        """Return the JSON of a request. No text is empty. Questions are marked only if configured."""

    def tokens(self, reply: Any) -> int | None:
        """Return the billed tokens according to the reply; None if it does not say."""

    def vectors(self, reply: Any) -> Vectors:
        """Return the reply's vectors in the order of the texts, neither counted nor scaled yet.

        Raises:
            ProviderFailed: the reply does not have the documented shape (retry), or a vector differs in
                kind from the others (split).
        """


def malformed_reply(what: str) -> ProviderFailed:
    """Return the failure for an undocumented reply. It is retried: proxies and restarts cause these."""
    return ProviderFailed(
        f"The provider's reply cannot be used: {what}",
        hint="If this keeps happening, check that embedding.base_url and embedding.provider match.",
    )


def list_in(reply: Any, *path: str) -> list[Any]:
    """Return the list at the path of keys. Raises `ProviderFailed` (retry) if there is none."""
    value = reply
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, list):
        raise malformed_reply(f"it has no list {'.'.join(path)!r}")
    return value


def count_in(reply: Any, *path: str) -> int | None:
    """Return the positive number at the path of keys; None if there is none."""
    value = reply
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    is_count = type(value) in {int, float} and 0 < value < _MAX_TOKENS
    return math.ceil(value) if is_count else None


def by_index(items: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the items sorted by `index`, or unchanged if none has an index.

    Raises:
        ProviderFailed: an index is missing, duplicated or not a number (retry).
    """
    if not all(isinstance(item, dict) for item in items):
        raise malformed_reply("an embedding is not an object")
    if not any("index" in item for item in items):
        return list(items)
    places = {item.get("index"): item for item in items if type(item.get("index")) is int}
    if len(places) != len(items) or any(place not in places for place in range(len(items))):
        raise malformed_reply("the indexes of its embeddings are not 0, 1, 2 …")
    return [places[place] for place in range(len(items))]


def matrix(rows: Sequence[Any]) -> Vectors:
    """Convert rows, lists of numbers or base64 of little-endian float32, to float32 `(rows, dimension)`.

    Raises:
        ProviderFailed: a row is not a vector (retry); a row is empty or has another length (split, which
            isolates the text that causes it).
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
            # A number too large for float32 becomes infinite and is refused later.
            with np.errstate(over="ignore"):
                return np.asarray(row, dtype=np.float64).astype(np.float32)
    except (binascii.Error, ValueError, OverflowError):
        pass
    raise malformed_reply("a vector is neither a list of numbers nor base64 of float32")


_NUMBERS = frozenset({float, int, type(None)})
"""Some servers write NaN as null (None), which becomes NaN and is refused."""


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """`dimensions` is sent only if it is not 0: many compatible servers refuse the key.

    `asks_base64` requests a third of the bytes and no parsing, but not every compatible server supports it.
    Both forms are read.
    """

    model: str
    dimensions: int = 0
    asks_base64: bool = False
    path: str = "/embeddings"

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:  # noqa: ARG002 - it has no types
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self.dimensions:
            body["dimensions"] = self.dimensions
        if self.asks_base64:
            body["encoding_format"] = "base64"
        return body

    def vectors(self, reply: Any) -> Vectors:
        items = by_index(list_in(reply, "data"))
        if not all("embedding" in item for item in items):
            raise malformed_reply("an item of 'data' has no 'embedding'")
        return matrix([item["embedding"] for item in items])

    def tokens(self, reply: Any) -> int | None:
        return count_in(reply, "usage", "total_tokens")


@dataclass(frozen=True, slots=True)
class VoyageFormat:
    """Without `input_types`, texts and questions get no prompt and so have the same vector.

    `truncation` is off: a text that is too long is refused, never cut silently.
    """

    model: str
    dimensions: int = 0
    input_types: bool = False
    path: str = "/embeddings"

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": list(texts), "truncation": False}
        if self.dimensions:
            body["output_dimension"] = self.dimensions
        if self.input_types:
            body["input_type"] = "query" if is_question else "document"
        return body

    def vectors(self, reply: Any) -> Vectors:
        return OpenAIFormat(self.model).vectors(reply)

    def tokens(self, reply: Any) -> int | None:
        return OpenAIFormat(self.model).tokens(reply)


@dataclass(frozen=True, slots=True)
class CohereFormat:
    """`input_type` is required. Without `input_types`, questions are sent as texts and get the same vector.

    `truncate` is `NONE`: a text that is too long is refused, never cut silently.
    """

    model: str
    dimensions: int = 0
    input_types: bool = False
    path: str = "/v2/embed"

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "input_type": "search_query" if self.input_types and is_question else "search_document",
            "texts": list(texts),
            "embedding_types": ["float"],
            "truncate": "NONE",
        }
        if self.dimensions:
            body["output_dimension"] = self.dimensions
        return body

    def vectors(self, reply: Any) -> Vectors:
        return matrix(list_in(reply, "embeddings", "float"))

    def tokens(self, reply: Any) -> int | None:
        return count_in(reply, "meta", "billed_units", "input_tokens")


@dataclass(frozen=True, slots=True)
class GoogleFormat:
    """One request object for each text: several parts in one content become a single merged vector.

    Without `input_types` there is no `taskType`: a text and an equal question get the same vector.
    gemini-embedding-2 ignores it anyway. The reply does not say how many tokens were billed.
    """

    model: str
    dimensions: int = 0
    input_types: bool = False

    @property
    def path(self) -> str:
        return f"/models/{quote(self._name, safe='')}:batchEmbedContents"

    @property
    def _name(self) -> str:
        return self.model.removeprefix("models/")

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        return {"requests": [self._request(text, is_question) for text in texts]}

    def _request(self, text: str, is_question: bool) -> dict[str, Any]:
        request: dict[str, Any] = {"model": f"models/{self._name}", "content": {"parts": [{"text": text}]}}
        if self.dimensions:
            request["outputDimensionality"] = self.dimensions
        if self.input_types:
            request["taskType"] = "RETRIEVAL_QUERY" if is_question else "RETRIEVAL_DOCUMENT"
        return request

    def vectors(self, reply: Any) -> Vectors:
        items = list_in(reply, "embeddings")
        if not all(isinstance(item, dict) and "values" in item for item in items):
            raise malformed_reply("an item of 'embeddings' has no 'values'")
        return matrix([item["values"] for item in items])

    def tokens(self, reply: Any) -> int | None:  # noqa: ARG002 - it never says
        return None


@dataclass(frozen=True, slots=True)
class OllamaFormat:
    """`truncate` is off: a text that is too long is refused, never cut silently."""

    model: str
    dimensions: int = 0
    path: str = "/api/embed"

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:  # noqa: ARG002 - it has no types
        body: dict[str, Any] = {"model": self.model, "input": list(texts), "truncate": False}
        if self.dimensions:
            body["dimensions"] = self.dimensions
        return body

    def vectors(self, reply: Any) -> Vectors:
        return matrix(list_in(reply, "embeddings"))

    def tokens(self, reply: Any) -> int | None:
        return count_in(reply, "prompt_eval_count")
