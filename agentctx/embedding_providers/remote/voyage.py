"""The wire format of Voyage's `/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.openai import OpenAIFormat


@dataclass(frozen=True, slots=True)
class VoyageFormat:
    """Without `input_type`, texts and questions get no prompt and so one vector each.

    `truncation` is off: a text that is too long is refused, never cut silently.
    """

    model: str
    dimensions: int = 0
    path: str = "/embeddings"

    def body(self, texts: Sequence[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": list(texts), "truncation": False}
        if self.dimensions:
            body["output_dimension"] = self.dimensions
        return body

    def vectors(self, reply: Any) -> Vectors:
        return OpenAIFormat(self.model).vectors(reply)
