"""The request each service is sent, and replies that only this service can get wrong."""

from __future__ import annotations

from typing import Any

import pytest

from agentctx.embedding_providers.remote.cohere import CohereFormat
from agentctx.embedding_providers.remote.google import GoogleFormat
from agentctx.embedding_providers.remote.ollama import OllamaFormat
from agentctx.embedding_providers.remote.openai import OpenAIFormat
from agentctx.embedding_providers.remote.voyage import VoyageFormat
from agentctx.embedding_providers.remote.wire_format import WireFormat
from agentctx.errors import ProviderFailed

GOOGLE_PART = {"model": "models/m", "content": {"parts": [{"text": "a"}]}}
COHERE = {
    "model": "m",
    "input_type": "search_document",
    "texts": ["a"],
    "embedding_types": ["float"],
    "truncate": "NONE",
}


@pytest.mark.parametrize(
    ("made", "path", "body"),
    [
        (OpenAIFormat("m"), "/embeddings", {"model": "m", "input": ["a"]}),
        (
            OpenAIFormat("m", 8, asks_base64=True),
            "/embeddings",
            {"model": "m", "input": ["a"], "dimensions": 8, "encoding_format": "base64"},
        ),
        (VoyageFormat("m"), "/embeddings", {"model": "m", "input": ["a"], "truncation": False}),
        (
            VoyageFormat("m", 8),
            "/embeddings",
            {"model": "m", "input": ["a"], "truncation": False, "output_dimension": 8},
        ),
        (OllamaFormat("m"), "/api/embed", {"model": "m", "input": ["a"], "truncate": False}),
        (
            OllamaFormat("m", 8),
            "/api/embed",
            {"model": "m", "input": ["a"], "truncate": False, "dimensions": 8},
        ),
        (CohereFormat("m"), "/v2/embed", COHERE),
        (CohereFormat("m", 8), "/v2/embed", {**COHERE, "output_dimension": 8}),
        (GoogleFormat("m"), "/models/m:batchEmbedContents", {"requests": [GOOGLE_PART]}),
        (
            GoogleFormat("models/m", 8),
            "/models/m:batchEmbedContents",
            {"requests": [{**GOOGLE_PART, "outputDimensionality": 8}]},
        ),
    ],
)
def test_what_is_sent(made: WireFormat, path: str, body: dict[str, Any]) -> None:
    assert (made.path, made.body(["a"])) == (path, body)


def test_a_model_name_cannot_leave_its_place_in_the_address() -> None:
    assert GoogleFormat("../x?y").path == "/models/..%2Fx%3Fy:batchEmbedContents"


@pytest.mark.parametrize(
    ("made", "reply"),
    [
        (OpenAIFormat("m"), {"data": [{"index": 0}]}),
        (VoyageFormat("m"), {"data": ["x"]}),
        (OllamaFormat("m"), {"embedding": [1.0]}),
        (CohereFormat("m"), {"embeddings": [[1.0]]}),
        (GoogleFormat("m"), {"embeddings": [[1.0]]}),
        (GoogleFormat("m"), {"embedding": {"values": [1.0]}}),
    ],
)
def test_a_reply_of_another_shape(made: WireFormat, reply: Any) -> None:
    with pytest.raises(ProviderFailed, match="cannot be used"):
        made.vectors(reply)
