"""Extract what a model said from the bytes of its reply. Pure, never raises: unreadable means no text."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from agentctx.llm.dialects.content import listed, mapping, word

MAX_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a reply after decompression; a longer one is not read."""
_ENCODINGS: Final = {"": None, "identity": None, "gzip": 31, "deflate": 15}
"""Supported encodings, with zlib's window for each. Others are not read."""
_WHOLE: Final = frozenset(
    {"stop", "eos_token", "tool_calls", "function_call"}  # chat completions, Ollama
    | {"end_turn", "stop_sequence", "tool_use"}  # Anthropic
    | {"STOP", "completed"}  # Gemini, Responses
)
"""Ends that the model chose. With any other, a reply is not what it had to say."""


class ReplyReader:
    """Collects the text of one reply.

    Args:
        dialect: the name of the API's dialect.
        headers: the headers of the reply, with lower-case names.
    """

    def __init__(self, dialect: str, headers: Mapping[str, str]) -> None:
        self._read_text = _TEXT_READERS[dialect]
        self._data = bytearray()
        encoding = headers.get("content-encoding", "").strip().lower()
        window = _ENCODINGS.get(encoding, 0)
        self._unpack = zlib.decompressobj(window) if window else None
        self._is_readable = window != 0
        self._content_type = headers.get("content-type", "").partition(";")[0].strip().lower()

    def feed(self, data: bytes) -> None:
        """Add bytes as received."""
        if not self._is_readable:
            return
        try:
            room = MAX_BYTES + 1 - len(self._data)
            self._data += self._unpack.decompress(data, room) if self._unpack else data
        except zlib.error:
            self._is_readable = False
        if len(self._data) > MAX_BYTES:
            self._is_readable = False
            self._data.clear()

    def text(self) -> str:
        """Return what the model said; empty if nothing, if the vendor broke it off or refused, or if the
        reply could not be read.
        """
        if not self._is_readable:
            return ""
        try:
            events = [json.loads(text) for text in event_texts(bytes(self._data), self._content_type)]
        except (ValueError, RecursionError):
            return ""
        if not all(isinstance(event, dict) for event in events):
            return ""
        reasons = [reason for event in events for reason in _ends(event)]
        has_ended = bool(reasons) or len(events) == 1
        is_whole = has_ended and _WHOLE.issuperset(reasons)
        return "".join(map(self._read_text, events)).strip() if is_whole else ""


def event_texts(data: bytes, content_type: str) -> Iterator[bytes]:
    """Yield the JSON texts of a reply: one, the `data` of server-sent events, or one for each line.

    Only a line feed ends a line, because JSON may contain the other characters that Python treats as line
    ends.
    """
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if content_type == "application/json":
        yield data
    elif content_type != "text/event-stream":
        yield from filter(bytes.strip, lines)
    else:
        parts: list[bytes] = []
        for line in [*lines, b""]:
            if line.startswith(b"data:"):
                parts.append(line[5:].removeprefix(b" "))
            elif not line and parts:
                event, parts = b"\n".join(parts), []
                if event.strip() != b"[DONE]":
                    yield event


def _ends(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the vendor ended its reply, as far as the event says."""
    choice, candidate = _first(event.get("choices")), _first(event.get("candidates"))
    delta, response = mapping(event.get("delta")), mapping(event.get("response", event))
    message = mapping(choice.get("message") or choice.get("delta"))
    if response.get("error") or event.get("type") == "error":
        yield "error"
    if message.get("refusal") or "refusal" in word(event.get("type")) or _refusals(response):
        yield "refusal"
    if response.get("object") == "response" and response.get("status") != "in_progress":
        yield word(response.get("status"))
    named = (choice.get("finish_reason"), event.get("stop_reason"), delta.get("stop_reason"))
    yield from filter(None, map(word, (*named, candidate.get("finishReason"), event.get("done_reason"))))
    if event.get("done") is True:
        yield "stop"


def _refusals(response: Mapping[str, Any]) -> bool:
    parts = (part for item in listed(response.get("output")) for part in listed(mapping(item).get("content")))
    return any(mapping(part).get("type") == "refusal" for part in parts)


def _chat(event: Mapping[str, Any]) -> str:
    choice = _first(event.get("choices"))
    return word(mapping(choice.get("message") or choice.get("delta")).get("content"))


def _responses(event: Mapping[str, Any]) -> str:
    if event.get("type") == "response.output_text.delta":
        return word(event.get("delta"))
    items = [mapping(item) for item in listed(event.get("output"))]
    return "".join(_parts(item.get("content"), "output_text") for item in items)


def _anthropic(event: Mapping[str, Any]) -> str:
    delta = mapping(event.get("delta"))
    if delta.get("type") == "text_delta":
        return word(delta.get("text"))
    return _parts(event.get("content"), "text")


def _gemini(event: Mapping[str, Any]) -> str:
    content = mapping(_first(event.get("candidates")).get("content"))
    parts = [mapping(part) for part in listed(content.get("parts"))]
    return "".join(word(part.get("text")) for part in parts if not part.get("thought"))


def _ollama(event: Mapping[str, Any]) -> str:
    return word(mapping(event.get("message")).get("content"))


_TEXT_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic_messages": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}


def _parts(content: Any, kind: str) -> str:
    parts = [mapping(part) for part in listed(content)]
    return "".join(word(part.get("text")) for part in parts if part.get("type") == kind)


def _first(value: Any) -> Mapping[str, Any]:
    """Return the first of several answers to one call; a stream sends pieces of all of them."""
    return next((each for each in map(mapping, listed(value)) if not each.get("index")), {})
