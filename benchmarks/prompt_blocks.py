"""What a chat request is to its model: blocks in the order in which the vendor's model reads them. No I/O.

The tokenizer is our own, and a stand-in: a block is one token that frames it (where it stands, who speaks,
whether it begins a message) and one token for every four bytes of its content; its last token may be shorter.
So a text of 400 bytes that is a message of its own is 101 tokens. Content is a text's UTF-8; of everything
else the JSON as it was sent (the order of keys counts, as with the vendors), without the markers that only
steer the cache. A bare string and a list with one text part are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from agentctx_testing.fake_provider.requests import Payload

Section = Literal["tools", "system", "messages"]

_BYTES_PER_TOKEN = 4
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_UNCACHEABLE = frozenset({"thinking", "redacted_thinking"})
_CACHE_FIELDS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_STORED_FIELDS = frozenset({"id", "status"})
"""Fields that a vendor adds to stored items; the model does not read them."""


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A piece of a prompt that is never split between two places.

    Args:
        tokens: the frame, then the content.
        digest: of both.
        marker: Anthropic's `cache_control` on this block.
        is_cacheable: whether a marker may stand here.
    """

    section: Section
    tokens: tuple[bytes, ...]
    digest: bytes
    marker: Mapping[str, Any] | None = None
    is_cacheable: bool = True


def tokenize(content: bytes) -> list[bytes]:
    """The content in tokens of four bytes."""
    return [content[at : at + _BYTES_PER_TOKEN] for at in range(0, len(content), _BYTES_PER_TOKEN)]


def tokens_of(blocks: Sequence[PromptBlock]) -> list[bytes]:
    """All tokens of a prompt."""
    return [token for block in blocks for token in block.tokens]


def anthropic_blocks(body: Payload) -> list[PromptBlock]:
    """Tools, system, messages."""
    blocks = [_block("tools", "tool", tool) for tool in _items(body.get("tools"))]
    blocks += _content("system", "system", body.get("system"))
    for message in _items(body.get("messages")):
        blocks += _content("messages", str(message.get("role")), message.get("content"))
    return blocks


def openai_chat_blocks(body: Payload) -> list[PromptBlock]:
    """Tools, then messages; the tool calls of a message follow its text."""
    blocks = [_block("tools", "tool", tool) for tool in _items(body.get("tools"))]
    for message in _items(body.get("messages")):
        blocks += _chat_message(message)
    return blocks


def openai_responses_blocks(body: Payload) -> list[PromptBlock]:
    """Tools, instructions, then the items of `input`, which must include those of earlier turns."""
    blocks = [_block("tools", "tool", tool) for tool in _items(body.get("tools"))]
    blocks += _content("system", "instructions", body.get("instructions"))
    given = body.get("input")
    for item in _items([{"role": "user", "content": given}] if isinstance(given, str) else given):
        if "role" in item:
            blocks += _content("messages", str(item["role"]), item.get("content"))
        else:
            blocks.append(_block("messages", "item", _without(item, _STORED_FIELDS)))
    return blocks


def gemini_blocks(body: Payload) -> list[PromptBlock]:
    """System instruction, tools, then contents."""
    system = body.get("systemInstruction") or body.get("system_instruction")
    blocks = _gemini_parts("system", system) if isinstance(system, dict) else []
    blocks += [_block("tools", "tool", tool) for tool in _items(body.get("tools"))]
    for content in _items(body.get("contents")):
        blocks += _gemini_parts("messages", content)
    return blocks


def ollama_blocks(body: Payload) -> list[PromptBlock]:
    """The order of most chat templates: tools, then messages; or `system` and `prompt` of `/api/generate`."""
    if "messages" in body:
        return openai_chat_blocks(body)
    blocks = _content("system", "system", body.get("system"))
    blocks += _content("messages", "user", body.get("prompt"))
    return blocks + [_block("messages", "image", {"image": image}) for image in body.get("images") or ()]


def text_of(content: object) -> str | None:
    """Return the text of a text part; None for any other part."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and content.get("type") in _TEXT_TYPES:
        text = content.get("text")
        return text if isinstance(text, str) else None
    return None


def _chat_message(message: Payload) -> Iterator[PromptBlock]:
    role = str(message.get("role"))
    if call := message.get("tool_call_id") or message.get("tool_name"):
        role = f"{role} {call}"
    yield from _content("messages", role, message.get("content"))
    for image in message.get("images") or ():
        yield _block("messages", f"{role}+", {"image": image})
    for call in _items(message.get("tool_calls")):
        yield _block("messages", f"{role}+", call)


def _content(section: Section, role: str, content: object) -> list[PromptBlock]:
    """Return a block for each part; the frame of the first one begins a message."""
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    return [_block(section, f"{role}+" if at else role, part) for at, part in enumerate(parts)]


def _gemini_parts(section: Section, content: Payload) -> list[PromptBlock]:
    role = str(content.get("role") or section)
    parts = [{"type": "text", **part} if "text" in part else part for part in _items(content.get("parts"))]
    return _content(section, role, parts)


def _block(section: Section, frame: str, content: object) -> PromptBlock:
    text = text_of(content)
    marker = content.get("cache_control") if isinstance(content, dict) else None
    kind = content.get("type") if isinstance(content, dict) else "text"
    raw = text if text is not None else json.dumps(_bare(content), ensure_ascii=False, separators=(",", ":"))
    tokens, digest = _tokens(f"<{section} {frame}>", raw)
    return PromptBlock(section, tokens, digest, marker, is_cacheable=bool(raw) and kind not in _UNCACHEABLE)


# Every request of a conversation repeats all before it: what is the same becomes the same object, and
# compares fast.
@lru_cache(maxsize=8_192)
def _tokens(frame: str, content: str) -> tuple[tuple[bytes, ...], bytes]:
    first, raw = frame.encode(errors="replace"), content.encode(errors="replace")
    digest = hashlib.sha256(len(first).to_bytes(4, "big") + first + raw).digest()
    return (first, *tokenize(raw)), digest


def _bare(content: object) -> object:
    return _without(content, _CACHE_FIELDS) if isinstance(content, dict) else content


def _without(item: Payload, names: frozenset[str]) -> Payload:
    return {name: value for name, value in item.items() if name not in names}


def _items(value: object) -> list[Payload]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
