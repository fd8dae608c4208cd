"""Wire formats, and the conversion of a reply's numbers into vectors. No I/O."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

import numpy as np

from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

_MAX_TOKENS: Final = 10**9
"""No request has more tokens; a larger number is nonsense."""
_NUMBERS: Final = frozenset({float, int, type(None)})
"""Some servers write NaN as null (None), which becomes NaN and is refused."""


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
    item_at = {item.get("index"): item for item in items if type(item.get("index")) is int}
    if len(item_at) != len(items) or any(index not in item_at for index in range(len(items))):
        raise malformed_reply("the indexes of its embeddings are not 0, 1, 2 …")
    return [item_at[index] for index in range(len(items))]


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


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """Encodes the requests and decodes the replies of one kind of provider; other kinds are subclasses.

    Args:
        model: the model's name.
        dimensions: length of the vectors, sent only if it is not 0: many compatible servers refuse the key.
        input_types: whether texts and questions are marked as such. Without, they have the same vector.
    """

    model: str
    dimensions: int = 0
    input_types: bool = False

    endpoint: ClassVar[str] = "/embeddings"
    """The path of the request after the base URL, with `{model}` for the model's name."""
    texts_field: ClassVar[str] = "input"
    dimensions_field: ClassVar[str] = "dimensions"
    type_field: ClassVar[str] = ""
    """The field that marks texts and questions; empty if the service has none."""
    types: ClassVar[tuple[str, str]] = ("document", "query")
    fixed: ClassVar[Mapping[str, Any]] = {}
    """Fields of every request."""
    vectors_path: ClassVar[tuple[str, ...]] = ("data",)
    item_field: ClassVar[str] = "embedding"
    """The field of a vector in an item of the reply's list; empty if the items are the vectors."""
    tokens_path: ClassVar[tuple[str, ...]] = ("usage", "total_tokens")
    """Where the reply has the number of billed tokens; empty if it does not say."""

    @property
    def name(self) -> str:
        """The model's name without Google's prefix."""
        return self.model.removeprefix("models/")

    @property
    def path(self) -> str:
        """The path of the request after the base URL; begins with a slash."""
        return self.endpoint.format(model=quote(self.name, safe=""))

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        """Return the JSON of a request. No text is empty. Questions are marked only if configured."""
        fields = {"model": self.model, self.texts_field: list(texts), **self.fixed}
        return {**fields, **self.options(is_question)}

    def options(self, is_question: bool) -> dict[str, Any]:
        """Return the configured fields."""
        size = {self.dimensions_field: self.dimensions} if self.dimensions else {}
        return {**size, self.type_field: self.types[is_question]} if self.input_types else size

    def tokens(self, reply: Any) -> int | None:
        """Return the billed tokens according to the reply; None if it does not say."""
        return count_in(reply, *self.tokens_path)

    def vectors(self, reply: Any) -> Vectors:
        """Return the reply's vectors in the order of the texts, neither counted nor scaled yet.

        Raises:
            ProviderFailed: the reply does not have the documented shape (retry), or a vector differs in
                kind from the others (split).
        """
        items = list_in(reply, *self.vectors_path)
        if not self.item_field:
            return matrix(items)
        ordered = by_index(items)
        if not all(self.item_field in item for item in ordered):
            raise malformed_reply(f"an item of {'.'.join(self.vectors_path)!r} has no {self.item_field!r}")
        return matrix([item[self.item_field] for item in ordered])


class OpenAIBase64Format(OpenAIFormat):
    """Asks for a third of the bytes, without numbers to parse; not every compatible server supports it."""

    fixed = {"encoding_format": "base64"}  # noqa: RUF012 - never changed


class VoyageFormat(OpenAIFormat):
    """`truncation` is off: a text that is too long is refused, never cut silently."""

    dimensions_field = "output_dimension"
    type_field = "input_type"
    fixed = {"truncation": False}  # noqa: RUF012


class CohereFormat(OpenAIFormat):
    """`input_type` is required; without `input_types`, questions are sent as texts.

    `truncate` is `NONE`: a text that is too long is refused, never cut silently.
    """

    endpoint = "/v2/embed"
    texts_field = "texts"
    dimensions_field = "output_dimension"
    type_field = "input_type"
    types = ("search_document", "search_query")
    fixed = {"input_type": types[0], "embedding_types": ["float"], "truncate": "NONE"}  # noqa: RUF012
    vectors_path = ("embeddings", "float")
    item_field = ""
    tokens_path = ("meta", "billed_units", "input_tokens")


class OllamaFormat(OpenAIFormat):
    """`truncate` is off: a text that is too long is refused, never cut silently."""

    endpoint = "/api/embed"
    fixed = {"truncate": False}  # noqa: RUF012
    vectors_path = ("embeddings",)
    item_field = ""
    tokens_path = ("prompt_eval_count",)


class GoogleFormat(OpenAIFormat):
    """One request object for each text: several parts in one content become a single merged vector.

    gemini-embedding-2 ignores the input types. The reply does not say how many tokens were billed.
    """

    endpoint = "/models/{model}:batchEmbedContents"
    dimensions_field = "outputDimensionality"
    type_field = "taskType"
    types = ("RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY")
    vectors_path = ("embeddings",)
    item_field = "values"
    tokens_path = ()

    def body(self, texts: Sequence[str], *, is_question: bool = False) -> dict[str, Any]:
        rest = {"model": f"models/{self.name}", **self.options(is_question)}
        return {"requests": [{"content": {"parts": [{"text": text}]}, **rest} for text in texts]}
