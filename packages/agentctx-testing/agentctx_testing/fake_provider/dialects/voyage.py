"""Voyage: vectors and scores."""

from __future__ import annotations

from agentctx_testing.fake_provider.dialects import openai
from agentctx_testing.fake_provider.dialects.base import FakeDialect, Keys, RowEndpoint, bearer_key
from agentctx_testing.fake_provider.requests import (
    EmbedRequest,
    FakeRefusal,
    Payload,
    RerankRequest,
    number_field,
    require,
    text_field,
    texts_field,
)
from agentctx_testing.fake_provider.vectors import Row, embed, rank

MAX_INPUTS = 1_000
MAX_DOCUMENTS = 1_000
_MAX_TOKENS = {"lite": 1_000_000, "large": 120_000, "code": 120_000}
_OTHER_MAX_TOKENS = 320_000


def max_tokens(model: str) -> int:
    """Return the limit on the tokens of one request, by the kind of model."""
    return next((tokens for kind, tokens in _MAX_TOKENS.items() if kind in model), _OTHER_MAX_TOKENS)


def read(payload: Payload, _: str) -> EmbedRequest:
    """Raises `RefusalError`."""
    model, texts = text_field(payload, "model"), texts_field(payload, "input")
    require(texts and all(texts), "Input cannot contain empty strings or empty lists.")
    require(
        len(texts) <= MAX_INPUTS, f"The batch size limit is {MAX_INPUTS}. Your batch size is {len(texts)}."
    )
    kind = payload.get("input_type")
    require(kind in (None, "query", "document"), "input_type must be null, 'query' or 'document'.")
    encoding = payload.get("encoding_format")
    require(encoding in (None, "base64"), "encoding_format must be null or 'base64'.")
    require(payload.get("output_dtype", "float") == "float", "this fake supports only output_dtype float")
    request = EmbedRequest(model, texts, number_field(payload, "output_dimension"), encoding == "base64")
    require(
        request.tokens <= max_tokens(model),
        f"The max allowed tokens per submitted batch is {max_tokens(model)}. "
        f"Your batch has {request.tokens} tokens.",
    )
    return request


def write(request: EmbedRequest, rows: list[Row]) -> Payload:
    return {**openai.write(request, rows), "usage": {"total_tokens": request.tokens}}


def read_rerank(payload: Payload, _: str) -> RerankRequest:
    """Raises `RefusalError`."""
    documents = texts_field(payload, "documents")
    require(documents, "The list of documents must not be empty.")
    require(len(documents) <= MAX_DOCUMENTS, f"The number of documents cannot exceed {MAX_DOCUMENTS}.")
    top = number_field(payload, "top_k")
    require(top is None or top > 0, "top_k must be a positive integer.")
    return RerankRequest(text_field(payload, "model"), text_field(payload, "query"), documents, top)


def write_rerank(request: RerankRequest, rows: list[Row]) -> Payload:
    return {
        "object": "list",
        "data": [{"relevance_score": row.score, "index": row.index} for row in rows],
        "model": request.model,
        "usage": {"total_tokens": request.tokens},
    }


def refusal(refused: FakeRefusal) -> Payload:
    return {"detail": refused.message}


VOYAGE = FakeDialect(
    "voyage",
    ("/voyage",),
    "/voyage/v1",
    "voyage-4",
    Keys(
        bearer_key,
        missing=FakeRefusal(401, "Please provide an API key in the Authorization header."),
        wrong=FakeRefusal(401, "Provided API key is invalid."),
    ),
    (
        RowEndpoint("/v1/embeddings", read, embed, write),
        RowEndpoint("/v1/rerank", read_rerank, rank, write_rerank),
    ),
    refusal,
)
