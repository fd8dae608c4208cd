"""The wire format of Ollama's `/api/embed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.wire_format import count_in, list_in, matrix


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
