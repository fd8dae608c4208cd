"""OpenAI and compatible servers."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx_testing.fake_provider.dialects.base import (
    FakeDialect,
    Keys,
    PlainEndpoint,
    RowEndpoint,
    bearer_key,
    numbers,
)
from agentctx_testing.fake_provider.dialects.openai_chat import CHAT_COMPLETIONS
from agentctx_testing.fake_provider.dialects.openai_responses import RESPONSES
from agentctx_testing.fake_provider.requests import (
    EmbedRequest,
    FakeRefusal,
    Payload,
    count_tokens,
    number_field,
    require,
    text_field,
)
from agentctx_testing.fake_provider.vectors import Row, embed

MODELS = ("gpt-5.4-mini", "text-embedding-3-small")
MAX_INPUTS = 2_048
MAX_INPUT_TOKENS = 8_192
MAX_REQUEST_TOKENS = 300_000
COMPATIBLE_MAX_INPUTS = 32
"""The default maximum of text-embeddings-inference."""

_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_INVALID_INPUT = (
    "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."
)


def read(payload: Payload, _: str) -> EmbedRequest:
    """Read an embeddings request. Raises `RefusalError` as OpenAI does: empty strings, too many inputs, …"""
    request = _read(payload)
    longest = max(map(count_tokens, request.texts))
    require(
        len(request.texts) <= MAX_INPUTS,
        f"Invalid 'input': array too long. Expected an array with maximum length {MAX_INPUTS}, "
        f"but got an array with length {len(request.texts)} instead.",
        param="input",
        code="array_above_max_length",
    )
    require(
        longest <= MAX_INPUT_TOKENS,
        f"This model's maximum context length is {MAX_INPUT_TOKENS} tokens, however you requested {longest} "
        f"tokens ({longest} in your prompt; 0 for the completion). Please reduce your prompt; or completion "
        "length.",
    )
    require(
        request.tokens <= MAX_REQUEST_TOKENS,
        f"Requested {request.tokens} tokens, max {MAX_REQUEST_TOKENS} tokens per request",
        code="max_tokens_per_request",
    )
    require(
        request.dimension is None or not request.model.startswith("text-embedding-ada"),
        "This model does not support specifying dimensions.",
    )
    return request


def read_compatible(payload: Payload, _: str) -> EmbedRequest:
    """Read a request like a server of one local model: few inputs, and vectors cannot be shortened."""
    request = _read(payload)
    require(
        len(request.texts) <= COMPATIBLE_MAX_INPUTS,
        f"batch size {len(request.texts)} > maximum allowed batch size {COMPATIBLE_MAX_INPUTS}",
        status=413,
    )
    require(
        request.dimension is None,
        f"Model {request.model!r} does not support `dimensions`.",
        param="dimensions",
    )
    return request


def write(request: EmbedRequest, rows: list[Row]) -> Payload:
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": row.index,
                "embedding": numbers(row.values, as_base64=request.as_base64),
            }
            for row in rows
        ],
        "model": request.model,
        "usage": {"prompt_tokens": request.tokens, "total_tokens": request.tokens},
    }


def refusal(refused: FakeRefusal) -> Payload:
    code = refused.code or _CODES.get(refused.status)
    return {
        "error": {
            "message": refused.message,
            "type": _type(refused.status, code),
            "param": refused.param,
            "code": code,
        }
    }


def _read(payload: Payload) -> EmbedRequest:
    model = text_field(payload, "model")
    encoding = payload.get("encoding_format", "float")
    require(encoding in ("float", "base64"), f"Invalid value: {encoding!r}.", param="encoding_format")
    texts = _texts(payload.get("input"))
    require(texts and all(texts), _INVALID_INPUT)
    return EmbedRequest(model, texts, number_field(payload, "dimensions"), encoding == "base64")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    require(isinstance(value, list), _INVALID_INPUT)
    items: Sequence[object] = value if isinstance(value, list) else ()
    if items and _are_tokens(items):
        return (_words(items),)
    return tuple(_text(item) for item in items)


def _text(item: object) -> str:
    if isinstance(item, list):
        require(_are_tokens(item), _INVALID_INPUT)
        return _words(item)
    require(isinstance(item, str), _INVALID_INPUT)
    return str(item)


def _are_tokens(items: Sequence[object]) -> bool:
    return all(isinstance(item, int) and not isinstance(item, bool) for item in items)


def _words(tokens: Sequence[object]) -> str:
    """Turn each token into a word, so that inputs with common tokens have similar vectors."""
    return " ".join(f"t{token}" for token in tokens)


def _type(status: int, code: str | None) -> str:
    if code in {"insufficient_quota", "max_tokens_per_request"}:
        return code
    if status == 429:
        return "requests"
    return "server_error" if status >= 500 else "invalid_request_error"


def _models(_: Payload) -> Payload:
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "openai"} for name in MODELS]
    return {"object": "list", "data": data}


MODEL_LIST = PlainEndpoint("/v1/models", "GET", _models)
OPENAI = FakeDialect(
    "openai",
    ("/openai", ""),
    "/openai/v1",
    "text-embedding-3-small",
    Keys(
        bearer_key,
        missing=FakeRefusal(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization header "
            "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        ),
        wrong=FakeRefusal(401, "Incorrect API key provided.", "invalid_api_key"),
    ),
    (RowEndpoint("/v1/embeddings", read, embed, write), CHAT_COMPLETIONS, RESPONSES, MODEL_LIST),
    refusal,
)
COMPATIBLE = FakeDialect(
    "openai-compatible",
    ("/compatible",),
    "/compatible/v1",
    "bge-m3",
    None,
    (RowEndpoint("/v1/embeddings", read_compatible, embed, write), CHAT_COMPLETIONS, MODEL_LIST),
    refusal,
)
