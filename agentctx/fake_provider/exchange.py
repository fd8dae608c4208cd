"""A chat request and its reply before they take a provider's shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentctx.fake_provider.answers import FakeAnswer
from agentctx.fake_provider.asked import Payload, count_tokens, require
from agentctx.fake_provider.conditions import strings


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAsked:
    """What a chat request asks for.

    Args:
        body: as it came; a Responses request with the items of the turns before it.
        last_text, images: of the last message; a tool's result is text.
        is_stream: in pieces.
        is_sse: whether the pieces are events; Gemini sends a JSON array otherwise.
        is_silent: nothing is to be said; as with Anthropic's `max_tokens: 0`.
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
        """Of every string in the body but the model's name. The vendors count otherwise."""
        prompt = {name: value for name, value in self.body.items() if name != "model"}
        return sum(map(count_tokens, strings(prompt)))


@dataclass(frozen=True, slots=True)
class FakeExchange:
    """`id` is hexadecimal and depends on the request alone, as does everything but `now_ms`."""

    asked: ChatAsked
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
    """JSON without spaces."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def event(payload: object, name: str | None = None) -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {compact(payload)}\n\n".encode(errors="replace")


def objects_field(payload: Payload, name: str, message: str) -> list[Payload]:
    """A field that must be a list of at least one object. Raises `Refused`."""
    value = payload.get(name)
    items = value if isinstance(value, list) else []
    require(items and all(isinstance(item, dict) for item in items), message, param=name)
    return items


def parts_of(content: object) -> list[Payload]:
    """Content as a list of parts, whichever way it was written."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def said(parts: Sequence[Payload]) -> str:
    """The texts of the parts, also of a tool's result."""
    texts = []
    for part in parts:
        text = part.get("text")
        nested = part.get("content")
        if isinstance(text, str):
            texts.append(text)
        elif nested is not None:
            texts.append(said(parts_of(nested)))
    return " ".join(texts)
