"""A chat request and its reply, independent of the provider's format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.conditions import strings
from agentctx_testing.fake_provider.requests import Payload, count_tokens, require, text_field


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat request.

    Args:
        body: the body as received, for Responses with the items of earlier turns prepended.
        last_text, images: text and number of images of the last message; a tool's result is text.
        is_stream: whether the reply is streamed.
        is_sse: whether a stream consists of server-sent events; otherwise Gemini sends a JSON array.
        is_silent: whether nothing is to be generated, as with Anthropic's `max_tokens: 0`.
    """

    model: str
    body: Payload
    last_text: str
    images: int = 0
    is_stream: bool = False
    is_sse: bool = True
    is_silent: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of all strings in the body but the model's name. Vendors count differently."""
        prompt = {name: value for name, value in self.body.items() if name != "model"}
        return sum(map(count_tokens, strings(prompt)))


@dataclass(frozen=True, slots=True)
class FakeExchange:
    """A request with its answer. All fields but `now_ms` depend on the request alone; `id` is hexadecimal."""

    request: ChatRequest
    answer: FakeAnswer
    id: str
    now_ms: int

    @property
    def created_s(self) -> int:
        return self.now_ms // 1_000

    @property
    def output_tokens(self) -> int:
        calls = sum(count_tokens(call.name) + count_tokens(call.arguments_json) for call in self.answer.calls)
        return count_tokens(self.answer.text) + calls


def compact(payload: object) -> str:
    """Encode as JSON without spaces."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def event(payload: object, name: str | None = None) -> bytes:
    """Encode a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {compact(payload)}\n\n".encode(errors="replace")


def objects_field(payload: Payload, name: str, message: str) -> list[Payload]:
    """Return a field that must be a non-empty list of objects. Raises `RefusalError`."""
    value = payload.get(name)
    items = value if isinstance(value, list) else []
    require(items and all(isinstance(item, dict) for item in items), message, param=name)
    return items


def chat_request(
    payload: Payload, last: Sequence[Payload], *, image: str, is_stream: bool, is_silent: bool = False
) -> ChatRequest:
    """Return the request whose last message has these parts; `image` is the `type` of an image."""
    return ChatRequest(
        model=text_field(payload, "model"),
        body=payload,
        last_text=text_of(last),
        images=sum(part.get("type") == image for part in last),
        is_stream=is_stream,
        is_silent=is_silent,
    )


def parts_of(content: object) -> list[Payload]:
    """Return the content as a list of parts, whether it was a string or a list."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def text_of(parts: Sequence[Payload]) -> str:
    """Return the texts of the parts, including those of tool results."""
    texts = []
    for part in parts:
        text = part.get("text")
        nested = part.get("content")
        if isinstance(text, str):
            texts.append(text)
        elif nested is not None:
            texts.append(text_of(parts_of(nested)))
    return " ".join(texts)
