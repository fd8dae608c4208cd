"""Anthropic: Messages and token counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from starlette.requests import Request

from agentctx_testing.fake_provider.answers import ToolCall, argument_pieces, text_pieces
from agentctx_testing.fake_provider.dialects.base import (
    ChatEndpoint,
    FakeDialect,
    Keys,
    PlainEndpoint,
    bearer_key,
)
from agentctx_testing.fake_provider.exchange import (
    ChatRequest,
    FakeExchange,
    chat_request,
    event,
    objects_field,
    parts_of,
)
from agentctx_testing.fake_provider.requests import FakeRefusal, Payload, number_field, require, text_field

_REQUIRED = ("anthropic-version",)
MODELS = ("claude-opus-4-8", "claude-sonnet-4-5", "claude-haiku-4-5")
_TAKES_SYSTEM_TURNS = (
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-fable-5",
    "claude-mythos-5",
)
"""Models that accept `{"role": "system"}` among the messages."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def read(payload: Payload, _: str, __: Mapping[str, str]) -> ChatRequest:
    """Read a Messages request. Raises `RefusalError` as Anthropic does, also for misplaced tool results."""
    limit = number_field(payload, "max_tokens")
    require(limit is not None, "max_tokens: Field required")
    is_stream = payload.get("stream") is True
    require(limit or not is_stream, "max_tokens: 0 cannot be used with streaming")
    return _read(payload, is_stream=is_stream, is_silent=limit == 0)


def write(exchange: FakeExchange) -> Payload:
    blocks: list[Payload] = []
    if exchange.answer.text:
        blocks.append({"type": "text", "text": exchange.answer.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in exchange.answer.calls
    ]
    return {
        **_message(exchange),
        "content": blocks,
        "stop_reason": _reason(exchange),
        "usage": _usage(exchange),
    }


def stream(exchange: FakeExchange) -> list[bytes]:
    return [event(payload, str(payload["type"])) for payload in _events(exchange)]


def count(payload: Payload) -> Payload:
    """Return the reply of `count_tokens`. Raises `RefusalError`."""
    return {"input_tokens": _read(payload).prompt_tokens}


def refusal(refused: FakeRefusal) -> Payload:
    kind = refused.code or _TYPES.get(refused.status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": refused.message},
        "request_id": "req_000000000000000000000000",
    }


def find_key(request: Request) -> str:
    """Return the key of `x-api-key`, or the bearer token of the Authorization header."""
    return request.headers.get("x-api-key", "") or bearer_key(request)


def _read(payload: Payload, *, is_stream: bool = False, is_silent: bool = False) -> ChatRequest:
    model = text_field(payload, "model")
    messages = objects_field(payload, "messages", "messages: at least one message is required")
    _require_roles(messages, model)
    _require_texts(messages)
    _require_results(messages)
    last = parts_of(messages[-1].get("content"))
    return chat_request(payload, last, image="image", is_stream=is_stream, is_silent=is_silent)


def _events(exchange: FakeExchange) -> Iterator[Payload]:
    begun = {**_usage(exchange), "output_tokens": 1}
    message = {**_message(exchange), "content": [], "stop_reason": None, "usage": begun}
    yield {"type": "message_start", "message": message}
    index = 0
    if exchange.answer.text:
        yield from _text_events(exchange.answer.text)
        index = 1
    for number, call in enumerate(exchange.answer.calls, start=index):
        yield from _call_events(number, call)
    ended = {"stop_reason": _reason(exchange), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": exchange.output_tokens}}
    yield {"type": "message_stop"}


def _text_events(text: str) -> Iterator[Payload]:
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for piece in text_pieces(text):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    yield {"type": "content_block_stop", "index": 0}


def _call_events(index: int, call: ToolCall) -> Iterator[Payload]:
    begun = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for piece in argument_pieces(call):
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _message(exchange: FakeExchange) -> Payload:
    return {
        "id": f"msg_{exchange.id}",
        "type": "message",
        "role": "assistant",
        "model": exchange.request.model,
        "stop_sequence": None,
    }


def _usage(exchange: FakeExchange) -> Payload:
    return {
        "input_tokens": exchange.request.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": exchange.output_tokens,
        "service_tier": "standard",
    }


def _reason(exchange: FakeExchange) -> str:
    if exchange.request.is_silent:
        return "max_tokens"
    return "tool_use" if exchange.answer.calls else "end_turn"


def _require_roles(messages: Sequence[Payload], model: str) -> None:
    for at, message in enumerate(messages):
        role = message.get("role")
        require(
            role in {"user", "assistant", "system"},
            f"messages.{at}.role: Input should be 'user' or 'assistant'",
        )
        if role == "system":
            _require_system_turn(messages, at, model)


def _require_system_turn(messages: Sequence[Payload], at: int, model: str) -> None:
    """A system message must follow a user message, and be last or precede an assistant message."""
    supported = model.startswith(_TAKES_SYSTEM_TURNS)
    require(supported, f"messages.{at}: role 'system' is not supported on this model")
    before = messages[at - 1].get("role") if at else None
    after = messages[at + 1].get("role") if at + 1 < len(messages) else "assistant"
    require(
        before == "user" and after == "assistant",
        f"messages.{at}: a system message must follow a user message, and be last or precede an "
        "assistant message",
    )
    texts = [part.get("type") == "text" for part in parts_of(messages[at].get("content"))]
    require(all(texts), f"messages.{at}: a system message must be text only")


def _require_texts(messages: Sequence[Payload]) -> None:
    for message in messages:
        for part in parts_of(message.get("content")):
            is_empty = part.get("type") == "text" and not part.get("text")
            require(not is_empty, "messages: text content blocks must be non-empty")


def _require_results(messages: Sequence[Payload]) -> None:
    """The results of a turn's tool calls must all be at the start of the next message."""
    open_ids: set[str] = set()
    for at, message in enumerate(messages):
        parts = parts_of(message.get("content"))
        results = [str(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"]
        missing = open_ids - set(results)
        first = [part.get("type") == "tool_result" for part in parts[: len(results)]]
        require(
            not missing and (all(first) or not open_ids),
            f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(sorted(open_ids))}. Each `tool_use` block must have a corresponding `tool_result` "
            "block in the next message.",
        )
        unexpected = sorted(set(results) - open_ids)
        require(
            not unexpected,
            f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(unexpected)}",
        )
        open_ids = {str(part.get("id")) for part in parts if part.get("type") == "tool_use"}


def _models(_: Payload) -> Payload:
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
        for name in MODELS
    ]
    return {"data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


ANTHROPIC = FakeDialect(
    "anthropic",
    ("/anthropic", ""),
    "/anthropic",
    MODELS[0],
    Keys(
        find_key,
        missing=FakeRefusal(401, "x-api-key header is required"),
        wrong=FakeRefusal(401, "invalid x-api-key"),
    ),
    (
        ChatEndpoint(
            "/v1/messages",
            read,
            write,
            stream,
            stream_error=lambda refused: event(refused, "error"),
            required_headers=_REQUIRED,
        ),
        PlainEndpoint("/v1/messages/count_tokens", "POST", count, required_headers=_REQUIRED),
        PlainEndpoint("/v1/models", "GET", _models, required_headers=_REQUIRED),
    ),
    refusal,
    request_id_header="request-id",
)
