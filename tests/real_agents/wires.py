"""Reads what an agent sent to its model from the body of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

Body = dict[str, Any]


class SentText(NamedTuple):
    """A text of a body: its role and the index of its message."""

    role: str
    text: str
    message: int


def messages(body: Body) -> list[Any]:
    """The conversation, as far as the vendor's prompt cache compares it."""
    found: list[Any] = body.get("messages") or body.get("input") or body.get("contents") or []
    return [_normal(_without_cache_marks(message)) for message in found]


def texts(body: Body) -> list[SentText]:
    """Every text of the conversation, in order."""
    return [
        SentText(role, text, number)
        for number, message in enumerate(messages(body))
        for role, text in _texts_of(message)
    ]


def tools(body: Body) -> set[str]:
    """The names of the offered tools, with the agent's namespace or prefix."""
    return {name for tool in body.get("tools") or [] for name in _names(tool)}


def mentions(body: Body, name: str) -> bool:
    """Whether a tool is offered or mentioned: a client may load its schema when the model asks."""
    return name in tools(body) or any(name in sent.text for sent in texts(body))


def _names(tool: Any) -> Iterator[str]:
    if "functionDeclarations" in tool:
        yield from (each["name"] for each in tool["functionDeclarations"])
    elif tool.get("type") == "namespace":
        yield from (f"{tool['name']}__{each['name']}" for each in tool["tools"])
    else:
        yield tool.get("name") or tool.get("function", {}).get("name", "")


def _texts_of(message: Any) -> Iterator[tuple[str, str]]:
    role = message.get("role", "")
    if message.get("type") == "function_call_output":
        yield "tool", _plain(message["output"])
        return
    for part in message.get("content", message.get("parts")) or []:
        if part.get("type") == "tool_result":
            yield "tool", _plain(part["content"])
        elif "functionResponse" in part:
            yield "tool", _plain(part["functionResponse"]["response"])
        elif isinstance(part.get("text"), str):
            yield role, part["text"]


def _normal(message: Any) -> Any:
    """The message with its content as a list: Claude Code sends a string unless it adds a cache marker."""
    content = message.get("content")
    return (
        {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message
    )


def _plain(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _without_cache_marks(value: Any) -> Any:
    """The cache markers of the vendor move from turn to turn, so they are removed."""
    if isinstance(value, dict):
        return {name: _without_cache_marks(each) for name, each in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_without_cache_marks(each) for each in value]
    return value
