"""Ollama's chat and generate: lines of JSON, streamed by default."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from agentctx.fake_provider.answers import text_pieces
from agentctx.fake_provider.asked import Payload, require, text_field
from agentctx.fake_provider.dialects.base import ChatEndpoint, PlainEndpoint
from agentctx.fake_provider.exchange import ChatAsked, FakeExchange, compact, objects_field

_ROLES = frozenset({"system", "user", "assistant", "tool"})


def read_chat(payload: Payload, _: str, __: Mapping[str, str]) -> ChatAsked:
    """Raises `Refused`."""
    model = text_field(payload, "model")
    messages = objects_field(payload, "messages", "messages must not be empty")
    for message in messages:
        require(message.get("role") in _ROLES, f"invalid role: {message.get('role')!r}")
        text = message.get("content", "")
        require(
            isinstance(text, str), "json: cannot unmarshal array into Go struct field .content of type string"
        )
    last = messages[-1]
    return _asked(payload, model, str(last.get("content", "")), last.get("images"))


def read_generate(payload: Payload, _: str, __: Mapping[str, str]) -> ChatAsked:
    """Raises `Refused`."""
    model = text_field(payload, "model")
    return _asked(payload, model, str(payload.get("prompt") or ""), payload.get("images"))


def write_chat(exchange: FakeExchange) -> Payload:
    message: Payload = {"role": "assistant", "content": exchange.answer.text}
    if exchange.answer.calls:
        message["tool_calls"] = _calls(exchange)
    return {**_head(exchange), "message": message, **_end(exchange)}


def stream_chat(exchange: FakeExchange) -> list[bytes]:
    """Calls come whole, in one object."""
    said = [{"role": "assistant", "content": piece} for piece in text_pieces(exchange.answer.text)]
    messages: list[Payload] = [*said]
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
    """An object of a stream."""
    return f"{compact(payload)}\n".encode(errors="replace")


def _asked(payload: Payload, model: str, last_text: str, images: object) -> ChatAsked:
    return ChatAsked(
        model=model,
        body=payload,
        last_text=last_text,
        images=len(images) if isinstance(images, list) else 0,
        is_stream=payload.get("stream", True) is not False,
    )


def _head(exchange: FakeExchange) -> Payload:
    moment = datetime.fromtimestamp(exchange.now_ms / 1_000, UTC)
    created = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"model": exchange.asked.model, "created_at": created}


def _end(exchange: FakeExchange) -> Payload:
    return {
        "done": True,
        "done_reason": "stop",
        "total_duration": 1_000_000,
        "load_duration": 1_000,
        "prompt_eval_count": exchange.asked.prompt_tokens,
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
OLLAMA_ENDPOINTS = (
    ChatEndpoint("/api/chat", read_chat, write_chat, stream_chat, stream_error=line, stream_type=_LINES),
    ChatEndpoint(
        "/api/generate", read_generate, write_generate, stream_generate, stream_error=line, stream_type=_LINES
    ),
    PlainEndpoint("/api/tags", "GET", _tags),
)
