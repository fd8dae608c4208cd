"""Gemini's generateContent, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentctx.fake_provider.answers import text_pieces
from agentctx.fake_provider.asked import Payload, require
from agentctx.fake_provider.dialects.base import ChatEndpoint, Endpoint, PlainEndpoint
from agentctx.fake_provider.exchange import ChatAsked, FakeExchange, compact, event, objects_field

MODELS = ("gemini-2.5-flash", "gemini-3.1-pro-preview")
VERSIONS = ("v1", "v1beta")


def read(payload: Payload, model: str, query: Mapping[str, str]) -> ChatAsked:
    """Raises `Refused`."""
    return _read(payload, model, query, is_stream=False)


def read_stream(payload: Payload, model: str, query: Mapping[str, str]) -> ChatAsked:
    """Raises `Refused`."""
    return _read(payload, model, query, is_stream=True)


def write(exchange: FakeExchange) -> Payload:
    parts: list[Payload] = [{"text": exchange.answer.text}] if exchange.answer.text else []
    return _reply(exchange, [*parts, *_calls(exchange)], is_last=True)


def stream(exchange: FakeExchange) -> list[bytes]:
    """Calls come whole; the last piece has the reason of the end and the usage."""
    parts: list[Payload] = [{"text": piece} for piece in text_pieces(exchange.answer.text)]
    parts += _calls(exchange)
    replies = [_reply(exchange, [part]) for part in parts[:-1]]
    replies.append(_reply(exchange, parts[-1:], is_last=True))
    if exchange.asked.is_sse:
        return [event(reply) for reply in replies]
    begins = ["[", *[",\r\n"] * (len(replies) - 1)]
    pieces = [f"{begin}{compact(reply)}" for begin, reply in zip(begins, replies, strict=True)]
    return [piece.encode(errors="replace") for piece in [*pieces, "]"]]


def _read(payload: Payload, model: str, query: Mapping[str, str], *, is_stream: bool) -> ChatAsked:
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
    return ChatAsked(
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
    """The turn after one with calls has as many results."""
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
        "modelVersion": exchange.asked.model,
        "responseId": exchange.id,
    }


def _usage(exchange: FakeExchange) -> Payload:
    tokens, output = exchange.asked.prompt_tokens, exchange.output_tokens
    return {"promptTokenCount": tokens, "candidatesTokenCount": output, "totalTokenCount": tokens + output}


def _models(_: Payload) -> Payload:
    return {"models": [{"name": f"models/{name}", "displayName": name} for name in MODELS]}


def _endpoint(version: str, method: str, reads: Callable[..., ChatAsked]) -> ChatEndpoint:
    path = f"/{version}/models/{{model}}:{method}"
    return ChatEndpoint(path, reads, write, stream, stream_error=event, stream_type="text/event-stream")


GEMINI_ENDPOINTS: tuple[Endpoint, ...] = (
    *(_endpoint(version, "generateContent", read) for version in VERSIONS),
    *(_endpoint(version, "streamGenerateContent", read_stream) for version in VERSIONS),
    *(PlainEndpoint(f"/{version}/models", "GET", _models) for version in VERSIONS),
)
