"""The wire format of Voyage's `/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.openai import OpenAIFormat


@dataclass(frozen=True, slots=True)
class VoyageFormat:
    """Without `input_types`, texts and questions get no prompt and so one vector each.

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
