"""The Gemini API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.requests import Request

from agentctx_testing.fake_provider.answers import text_pieces
from agentctx_testing.fake_provider.dialects.base import (
    ChatEndpoint,
    Endpoint,
    FakeDialect,
    Keys,
    PlainEndpoint,
    RowEndpoint,
    numbers,
)
from agentctx_testing.fake_provider.exchange import ChatRequest, FakeExchange, compact, event, objects_field
from agentctx_testing.fake_provider.requests import EmbedRequest, FakeRefusal, Payload, number_field, require
from agentctx_testing.fake_provider.vectors import Row, embed, in_order

MAX_REQUESTS = 100

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TYPES = "type.googleapis.com/google.rpc."
MODELS = ("gemini-2.5-flash", "gemini-3.1-pro-preview")


def read_batch(payload: Payload, model: str) -> EmbedRequest:
    """Read one text from each of `requests`, joining the parts of a content like the real API does.
    Raises `RefusalError`.
    """
    requests = payload.get("requests")
    require(isinstance(requests, list) and requests, "* BatchEmbedContentsRequest.requests: is required")
    items = requests if isinstance(requests, list) else []
    require(
        len(items) <= MAX_REQUESTS,
        f"* BatchEmbedContentsRequest.requests: at most {MAX_REQUESTS} requests can be in one batch",
    )
    parsed = [_read_one(request, model, must_name=True) for request in items]
    sizes = {one.dimension for one in parsed}
    require(len(sizes) == 1, "* all requests in the batch must have the same output_dimensionality")
    return EmbedRequest(
        model, tuple(text for one in parsed for text in one.texts), sizes.pop(), unit_length=False
    )


def read_single(payload: Payload, model: str) -> EmbedRequest:
    """Raises `RefusalError`."""
    return _read_one(payload, model, must_name=False)


def write_batch(_: EmbedRequest, rows: list[Row]) -> Payload:
    return {"embeddings": [{"values": numbers(row.values)} for row in in_order(rows)]}


def write_single(request: EmbedRequest, rows: list[Row]) -> Payload:
    several = write_batch(request, rows)["embeddings"]
    return {"embedding": several[0] if several else {}}


def refusal(refused: FakeRefusal) -> Payload:
    name = _STATUSES.get(refused.status, "UNKNOWN")
    error: Payload = {"code": refused.status, "message": refused.message, "status": name}
    details = []
    if refused.code:
        details.append({"@type": f"{_TYPES}ErrorInfo", "reason": refused.code, "domain": "googleapis.com"})
    if refused.retry_info_s is not None:
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{refused.retry_info_s:g}s"})
    return {"error": {**error, "details": details} if details else error}


def find_key(request: Request) -> str:
    """Return the key from the header, or else from the URL."""
    return request.headers.get("x-goog-api-key", "") or request.query_params.get("key", "")


def _read_one(request: object, model: str, *, must_name: bool) -> EmbedRequest:
    require(isinstance(request, dict), "Invalid JSON payload received.")
    fields: Payload = request if isinstance(request, dict) else {}
    named = fields.get("model", None if must_name else f"models/{model}")
    require(named == f"models/{model}", "* EmbedContentRequest.model: the model must be the one in the path")
    text = "\n".join(_parts(fields.get("content")))
    require(text, "* EmbedContentRequest.content: content contains an empty Part.")
    return EmbedRequest(model, (text,), number_field(fields, "outputDimensionality"), unit_length=False)


def _parts(content: object) -> list[str]:
    parts = content.get("parts") if isinstance(content, dict) else None
    items = parts if isinstance(parts, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in items]
    require(
        texts and all(isinstance(text, str) and text for text in texts),
        "* EmbedContentRequest.content: content contains an empty Part.",
    )
    return [str(text) for text in texts]


def write(exchange: FakeExchange) -> Payload:
    parts: list[Payload] = [{"text": exchange.answer.text}] if exchange.answer.text else []
    return _reply(exchange, [*parts, *_calls(exchange)], is_last=True)


def stream(exchange: FakeExchange) -> list[bytes]:
    """Stream calls whole; the last piece has the finish reason."""
    parts: list[Payload] = [{"text": piece} for piece in text_pieces(exchange.answer.text)]
    parts += _calls(exchange)
    replies = [_reply(exchange, [part]) for part in parts[:-1]]
    replies.append(_reply(exchange, parts[-1:], is_last=True))
    if exchange.request.is_sse:
        return [event(reply) for reply in replies]
    begins = ["[", *[",\r\n"] * (len(replies) - 1)]
    pieces = [f"{begin}{compact(reply)}" for begin, reply in zip(begins, replies, strict=True)]
    return [piece.encode(errors="replace") for piece in [*pieces, "]"]]


def read(payload: Payload, model: str, query: Mapping[str, str], *, is_stream: bool = False) -> ChatRequest:
    """Raises `RefusalError`."""
    message = "* GenerateContentRequest.contents: contents is not specified"
    contents = objects_field(payload, "contents", message)
    for content in contents:
        role = content.get("role", "user")
        require(role in {"user", "model", "function"}, "Please use a valid role: user, model.")
        require(
            content.get("parts"), "* GenerateContentRequest.contents.parts: contents.parts must not be empty."
        )
    _require_results(contents)
    last = [part for part in contents[-1]["parts"] if isinstance(part, dict)]
    return ChatRequest(
        model=model,
        body=payload,
        last_text=" ".join(map(_text, last)).strip(),
        images=sum("inlineData" in part or "inline_data" in part for part in last),
        is_stream=is_stream,
        is_sse=query.get("alt") == "sse",
    )


def _text(part: Payload) -> str:
    result = part.get("functionResponse")
    if isinstance(result, dict):
        return compact(result.get("response"))
    return str(part.get("text") or "")


def _require_results(contents: Sequence[Payload]) -> None:
    """A turn with function calls must be followed by one with as many results."""
    calls = 0
    for content in contents:
        results = sum("functionResponse" in part for part in content["parts"])
        require(
            results == calls,
            "Please ensure that the number of function response parts is equal to the number of function "
            "call parts of the function call turn.",
        )
        calls = sum("functionCall" in part for part in content["parts"])


def _calls(exchange: FakeExchange) -> list[Payload]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in exchange.answer.calls
    ]


def _reply(exchange: FakeExchange, parts: Sequence[Payload], *, is_last: bool = False) -> Payload:
    candidate: Payload = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if is_last:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(exchange),
        "modelVersion": exchange.request.model,
        "responseId": exchange.id,
    }


def _usage(exchange: FakeExchange) -> Payload:
    tokens, output = exchange.request.prompt_tokens, exchange.output_tokens
    return {"promptTokenCount": tokens, "candidatesTokenCount": output, "totalTokenCount": tokens + output}


def _models(_: Payload) -> Payload:
    return {"models": [{"name": f"models/{name}", "displayName": name} for name in MODELS]}


def _chat_endpoints(version: str) -> tuple[Endpoint, ...]:
    models, read_stream = f"/{version}/models", partial(read, is_stream=True)
    rest = (write, stream, event, "text/event-stream")
    return (
        ChatEndpoint(f"{models}/{{model}}:generateContent", read, *rest),
        ChatEndpoint(f"{models}/{{model}}:streamGenerateContent", read_stream, *rest),
        PlainEndpoint(models, "GET", _models),
    )


GOOGLE = FakeDialect(
    "google",
    ("/google", ""),
    "/google/v1beta",
    "gemini-embedding-001",
    Keys(
        find_key,
        missing=FakeRefusal(
            403,
            "Method doesn't allow unregistered callers (callers without established identity). Please use "
            "API Key or other form of API consumer identity to call this API.",
        ),
        # A wrong key is a 400 here; only the reason tells it from an invalid text.
        wrong=FakeRefusal(400, "API key not valid. Please pass a valid API key.", "API_KEY_INVALID"),
    ),
    (
        RowEndpoint("/v1beta/models/{model}:batchEmbedContents", read_batch, embed, write_batch),
        RowEndpoint("/v1beta/models/{model}:embedContent", read_single, embed, write_single),
        *_chat_endpoints("v1"),
        *_chat_endpoints("v1beta"),
    ),
    refusal,
)
