"""Ollama: no key, no limit on inputs, errors as one string."""

from __future__ import annotations

from agentctx.fake_provider.asked import (
    EmbedAsked,
    FakeRefusal,
    Payload,
    count_tokens,
    number_field,
    require,
    text_field,
    texts_field,
)
from agentctx.fake_provider.dialects.base import EmbedEndpoint, FakeDialect, numbers
from agentctx.fake_provider.dialects.ollama_chat import OLLAMA_ENDPOINTS
from agentctx.fake_provider.rows import Row

MAX_INPUT_TOKENS = 8_192


def read(payload: Payload, _: str) -> EmbedAsked:
    """An empty `input` is an empty reply. Raises `Refused`."""
    value = payload.get("input")
    texts = () if value is None or value == "" else texts_field(payload, "input")
    fits = all(count_tokens(text) <= MAX_INPUT_TOKENS for text in texts)
    require(payload.get("truncate", True) or fits, "the input length exceeds the context length")
    return EmbedAsked(text_field(payload, "model"), texts, number_field(payload, "dimensions"))


def read_old(payload: Payload, _: str) -> EmbedAsked:
    """One `prompt`. Raises `Refused`."""
    prompt = payload.get("prompt") or ""
    require(isinstance(prompt, str), "invalid input type")
    return EmbedAsked(text_field(payload, "model"), (prompt,) if prompt else ())


def write(asked: EmbedAsked, rows: list[Row]) -> Payload:
    in_order = sorted(rows, key=lambda row: row.index)
    return {
        "model": asked.model,
        "embeddings": [numbers(row.values, as_base64=False) for row in in_order],
        "total_duration": 1_000_000,
        "load_duration": 1_000,
        "prompt_eval_count": asked.tokens,
    }


def write_old(_: EmbedAsked, rows: list[Row]) -> Payload:
    return {"embedding": numbers(rows[0].values, as_base64=False) if rows else []}


def refusal(refused: FakeRefusal) -> Payload:
    return {"error": refused.message}


OLLAMA = FakeDialect(
    "ollama",
    ("/ollama", ""),
    "/ollama",
    "nomic-embed-text",
    None,
    (
        EmbedEndpoint("/api/embed", read, write),
        EmbedEndpoint("/api/embeddings", read_old, write_old),
        *OLLAMA_ENDPOINTS,
    ),
    refusal,
)
