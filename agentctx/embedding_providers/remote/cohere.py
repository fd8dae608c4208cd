"""The wire format of Cohere's `/v2/embed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.wire_format import count_in, list_in, matrix


@dataclass(frozen=True, slots=True)
class CohereFormat:
    """`input_type` is required. Without `input_types`, texts and questions get the same, so one vector each.

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
