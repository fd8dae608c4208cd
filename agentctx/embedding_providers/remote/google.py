"""The wire format of Gemini's `batchEmbedContents`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from agentctx.embedding_providers.base import Vectors
from agentctx.embedding_providers.remote.wire_format import garbled, list_in, matrix


@dataclass(frozen=True, slots=True)
class GoogleFormat:
    """One request object for each text: several parts in one content become a single merged vector.

    Without `input_types` there is no `taskType`: texts and questions get one vector each. gemini-embedding-2
    ignores it anyway. The reply does not say how many tokens it was.
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
            raise garbled("an item of 'embeddings' has no 'values'")
        return matrix([item["values"] for item in items])

    def tokens(self, reply: Any) -> int | None:  # noqa: ARG002 - it never says
        return None
