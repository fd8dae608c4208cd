"""Ollama: no key, no limit on inputs, errors as one string."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from agentctx_testing.fake_provider.answers import text_pieces
from agentctx_testing.fake_provider.dialects.base import (
    ChatEndpoint,
    FakeDialect,
    PlainEndpoint,
    RowEndpoint,
    numbers,
)
from agentctx_testing.fake_provider.exchange import ChatRequest, FakeExchange, compact, objects_field
from agentctx_testing.fake_provider.requests import (
    EmbedRequest,
    FakeRefusal,
    Payload,
    count_tokens,
    number_field,
    require,
    text_field,
    texts_field,
)
from agentctx_testing.fake_provider.vectors import Row, embed, in_order

MAX_INPUT_TOKENS = 8_192
_ROLES = frozenset({"system", "user", "assistant", "tool"})


def read(payload: Payload, _: str) -> EmbedRequest:
    """Read an embed request; an empty `input` gives an empty reply. Raises `RefusalError`."""
    value = payload.get("input")
    texts = () if value is None or value == "" else texts_field(payload, "input")
    matches = all(count_tokens(text) <= MAX_INPUT_TOKENS for text in texts)
    require(payload.get("truncate", True) or matches, "the input length exceeds the context length")
    return EmbedRequest(text_field(payload, "model"), texts, number_field(payload, "dimensions"))


def read_old(payload: Payload, _: str) -> EmbedRequest:
    """Read a request of the old endpoint, which takes one `prompt`. Raises `RefusalError`."""
    prompt = payload.get("prompt") or ""
    require(isinstance(prompt, str), "invalid input type")
    return EmbedRequest(text_field(payload, "model"), (prompt,) if prompt else ())


def write(request: EmbedRequest, rows: list[Row]) -> Payload:
    return {
        "model": request.model,
        "embeddings": [numbers(row.values) for row in in_order(rows)],
        "total_duration": 1_000_000,
        "load_duration": 1_000,
        "prompt_eval_count": request.tokens,
    }


def write_old(_: EmbedRequest, rows: list[Row]) -> Payload:
    return {"embedding": numbers(rows[0].values) if rows else []}


def refusal(refused: FakeRefusal) -> Payload:
    return {"error": refused.message}


def read_chat(payload: Payload, _: str, __: Mapping[str, str]) -> ChatRequest:
    """Raises `RefusalError`."""
    model = text_field(payload, "model")
    messages = objects_field(payload, "messages", "messages must not be empty")
    for message in messages:
        require(message.get("role") in _ROLES, f"invalid role: {message.get('role')!r}")
        text = message.get("content", "")
        require(
            isinstance(text, str), "json: cannot unmarshal array into Go struct field .content of type string"
        )
    last = messages[-1]
    return _chat_request(payload, model, str(last.get("content", "")), last.get("images"))


def read_generate(payload: Payload, _: str, __: Mapping[str, str]) -> ChatRequest:
    """Raises `RefusalError`."""
    model = text_field(payload, "model")
    return _chat_request(payload, model, str(payload.get("prompt") or ""), payload.get("images"))


def write_chat(exchange: FakeExchange) -> Payload:
    message: Payload = {"role": "assistant", "content": exchange.answer.text}
    if exchange.answer.calls:
        message["tool_calls"] = _calls(exchange)
    return {**_head(exchange), "message": message, **_end(exchange)}


def stream_chat(exchange: FakeExchange) -> list[bytes]:
    """Stream all calls in one object."""
    replies = [{"role": "assistant", "content": piece} for piece in text_pieces(exchange.answer.text)]
    messages: list[Payload] = [*replies]
    if exchange.answer.calls:
        messages.append({"role": "assistant", "content": "", "tool_calls": _calls(exchange)})
    lines = [{**_head(exchange), "message": message, "done": False} for message in messages]
    end = {**_head(exchange), "message": {"role": "assistant", "content": ""}, **_end(exchange)}
    return [*map(line, lines), line(end)]


def write_generate(exchange: FakeExchange) -> Payload:
    return {**_head(exchange), "response": exchange.answer.text, **_end(exchange), "context": []}


def stream_generate(exchange: FakeExchange) -> list[bytes]:
    pieces = text_pieces(exchange.answer.text)
    lines = [{**_head(exchange), "response": piece, "done": False} for piece in pieces]
    return [*map(line, lines), line({**_head(exchange), "response": "", **_end(exchange), "context": []})]


def line(payload: object) -> bytes:
    """Encode an object of a stream."""
    return f"{compact(payload)}\n".encode(errors="replace")


def _chat_request(payload: Payload, model: str, last_text: str, images: object) -> ChatRequest:
    return ChatRequest(
        model=model,
        body=payload,
        last_text=last_text,
        images=len(images) if isinstance(images, list) else 0,
        is_stream=payload.get("stream", True) is not False,
    )


def _head(exchange: FakeExchange) -> Payload:
    moment = datetime.fromtimestamp(exchange.now_ms / 1_000, UTC)
    created = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"model": exchange.request.model, "created_at": created}


def _end(exchange: FakeExchange) -> Payload:
    return {
        "done": True,
        "done_reason": "stop",
        "total_duration": 1_000_000,
        "load_duration": 1_000,
        "prompt_eval_count": exchange.request.prompt_tokens,
        "prompt_eval_duration": 1_000,
        "eval_count": exchange.output_tokens,
        "eval_duration": 1_000,
    }


def _calls(exchange: FakeExchange) -> list[Payload]:
    return [
        {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(exchange.answer.calls)
    ]


def _tags(_: Payload) -> Payload:
    return {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest", "size": 1}]}


_LINES = "application/x-ndjson"
OLLAMA = FakeDialect(
    "ollama",
    ("/ollama", ""),
    "/ollama",
    "nomic-embed-text",
    None,
    (
        RowEndpoint("/api/embed", read, embed, write),
        RowEndpoint("/api/embeddings", read_old, embed, write_old),
        ChatEndpoint("/api/chat", read_chat, write_chat, stream_chat, line, _LINES),
        ChatEndpoint("/api/generate", read_generate, write_generate, stream_generate, line, _LINES),
        PlainEndpoint("/api/tags", "GET", _tags),
    ),
    refusal,
)
