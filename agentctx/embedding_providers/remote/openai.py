"""The wire format of OpenAI's `/embeddings`, which many servers speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.wire_format import by_index, count_in, garbled, list_in, matrix


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """`dimensions` is sent when it is not 0: many compatible servers refuse the very key.

    `asks_base64`: a third of the bytes and none of the parsing; not every compatible server knows it. Either
    form is read.
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
            raise garbled("an item of 'data' has no 'embedding'")
        return matrix([item["embedding"] for item in items])

    def tokens(self, reply: Any) -> int | None:
        return count_in(reply, "usage", "total_tokens")
