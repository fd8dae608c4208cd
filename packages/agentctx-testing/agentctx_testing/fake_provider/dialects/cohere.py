"""Cohere: vectors and scores."""

from __future__ import annotations

from agentctx_testing.fake_provider.dialects.base import FakeDialect, Keys, RowEndpoint, bearer_key, numbers
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
from agentctx_testing.fake_provider.vectors import Row, embed, in_order, rank

MAX_TEXTS = 96
MAX_DOCUMENTS = 1_000
INPUT_TYPES = ("search_document", "search_query", "classification", "clustering", "image")

_ID = "00000000-0000-4000-8000-000000000000"


def read(payload: Payload, _: str) -> EmbedRequest:
    """Read an embed request. Like Cohere, accept empty strings. Raises `RefusalError`."""
    texts = texts_field(payload, "texts")
    require(texts, "invalid request: at least one of texts, images or inputs must be provided")
    require(
        len(texts) <= MAX_TEXTS,
        f"invalid request: total number of texts must be at most {MAX_TEXTS} - received {len(texts)}",
    )
    require(
        payload.get("input_type") in INPUT_TYPES,
        "invalid request: valid input_type must be provided with the provided model",
    )
    require(
        payload.get("embedding_types", ["float"]) == ["float"],
        "this fake supports only embedding_types float",
    )
    return EmbedRequest(text_field(payload, "model"), texts, number_field(payload, "output_dimension"))


def write(request: EmbedRequest, rows: list[Row]) -> Payload:
    return {
        "id": _ID,
        "embeddings": {"float": [numbers(row.values) for row in in_order(rows)]},
        "texts": list(request.texts),
        "response_type": "embeddings_by_type",
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": request.tokens}},
    }


def read_rerank(payload: Payload, _: str) -> RerankRequest:
    """Raises `RefusalError`."""
    documents = texts_field(payload, "documents")
    require(documents, "invalid request: list of documents must not be empty")
    require(
        len(documents) <= MAX_DOCUMENTS,
        f"invalid request: too many documents, at most {MAX_DOCUMENTS} are allowed, got {len(documents)}",
    )
    top = number_field(payload, "top_n")
    require(top is None or top > 0, "invalid request: top_n must be greater than 0")
    return RerankRequest(text_field(payload, "model"), text_field(payload, "query"), documents, top)


def write_rerank(_: RerankRequest, rows: list[Row]) -> Payload:
    return {
        "id": _ID,
        "results": [{"index": row.index, "relevance_score": row.score} for row in rows],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    }


def refusal(refused: FakeRefusal) -> Payload:
    return {"id": _ID, "message": refused.message}


COHERE = FakeDialect(
    "cohere",
    ("/cohere",),
    "/cohere",
    "embed-v4.0",
    Keys(
        bearer_key,
        missing=FakeRefusal(401, "no api key supplied"),
        wrong=FakeRefusal(401, "invalid api token"),
    ),
    (
        RowEndpoint("/v2/embed", read, embed, write),
        RowEndpoint("/v2/rerank", read_rerank, rank, write_rerank),
    ),
    refusal,
)
