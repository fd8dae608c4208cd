"""Google's generateContent: `systemInstruction`, and `contents` whose parts have a field but no type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentctx.llm.dialects.base import Dialect, Role, Turn
from agentctx.llm.dialects.content import Body, listed, mapping, replaced, word

_ROLES: dict[str, Role] = {
    "user": "user",
    "": "user",
    "model": "assistant",
    "function": "tool",
    "system": "system",
}
_SYSTEM_FIELDS = ("systemInstruction", "system_instruction")
_CACHE_FIELDS = ("cachedContent", "cached_content")
_RESULT_FIELDS = ("functionResponse", "function_response")
_CALL_FIELDS = ("functionCall", "function_call")


class Gemini(Dialect):
    """`POST /v1/models/MODEL:generateContent`, `:streamGenerateContent`. Names in camel or snake case."""

    name = "gemini"
    turns_field = "contents"

    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        role = _role(item)
        parts = [mapping(part) for part in listed(item.get("parts"))]
        results = [mapping(part[name]) for part in parts for name in _RESULT_FIELDS if name in part]
        # One level deep: the structure of a response is up to its function.
        values = [value for result in results for value in mapping(result.get("response")).values()]
        return Turn(
            index=index,
            role=role,
            texts=tuple(_texts(item)),
            results=tuple(value for value in values if isinstance(value, str)),
            content=item.get("parts"),
            has_results=bool(results),
            calls_tools=any(name in part for part in parts for name in _CALL_FIELDS),
            takes_block=role == "user" and _with_part(item, "") is not None,
        )

    def system_texts(self, body: Body) -> Sequence[str]:
        return tuple(_texts(body.get(_system_field(body))))

    def inject_system(self, body: Body, block: str) -> Body:
        """Append the block, unless the body names a cache: then it must not have a system instruction."""
        if not block or not listed(body.get("contents")) or any(body.get(name) for name in _CACHE_FIELDS):
            return body
        field = _system_field(body)
        present = body.get(field)
        if present is None:
            return replaced(body, field, {"parts": [{"text": block}]})
        changed = _with_part(mapping(present), block)
        return body if changed is None else replaced(body, field, changed)

    def with_block(self, item: Mapping[str, Any], block: str) -> Mapping[str, Any]:
        return {**item, "parts": [*item["parts"], {"text": block}]}


def _system_field(body: Body) -> str:
    return next((name for name in _SYSTEM_FIELDS if name in body), _SYSTEM_FIELDS[0])


def _role(content: Mapping[str, Any]) -> Role:
    role = content.get("role")
    return _ROLES.get("" if role is None else word(role), "other")


def _texts(content: Any) -> Iterator[str]:
    for part in listed(mapping(content).get("parts")):
        text = mapping(part).get("text")
        if isinstance(text, str) and not mapping(part).get("thought"):
            yield text


def _with_part(content: Mapping[str, Any], block: str) -> dict[str, Any] | None:
    parts = listed(content.get("parts"))
    return {**content, "parts": [*parts, {"text": block}]} if parts else None
