"""OpenAI's chat completions: `messages` with roles; one or more of them are the system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentctx.model_adapters.dialects.base import Dialect, Role, Turn
from agentctx.model_adapters.dialects.content import (
    Body,
    inserted,
    listed,
    mapping,
    part_texts,
    replaced,
    with_item,
    with_part,
    word,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class OpenAIChat(Dialect):
    """`POST /v1/chat/completions`, including the many services that copy it."""

    name = "openai_chat"
    is_messages_alone = True

    def turns(self, body: Body) -> Sequence[Turn]:
        return [_turn(index, mapping(message)) for index, message in enumerate(listed(body.get("messages")))]

    def system_texts(self, body: Body) -> Sequence[str]:  # noqa: ARG002 - the system prompt is among the turns
        return ()

    def inject_system(self, body: Body, block: str) -> Body:
        messages = listed(body.get("messages"))
        if not block or not messages:
            return body
        place = leading_system_messages(self.turns(body))
        # Use the client's own role: old models do not know `developer`, new ones accept both.
        role = messages[place - 1]["role"] if place else "system"
        return replaced(body, "messages", inserted(messages, place, {"role": role, "content": block}))

    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        messages = listed(body.get("messages"))
        if not block or not 0 <= turn_index < len(messages):
            return body
        message = mapping(messages[turn_index])
        content = with_part(message.get("content"), block, "text")
        if content is None or message.get("role") != "user":
            return body
        return replaced(body, "messages", with_item(messages, turn_index, {**message, "content": content}))


def leading_system_messages(turns: Sequence[Turn]) -> int:
    """Count the turns at the beginning that form the system prompt."""
    return next((place for place, turn in enumerate(turns) if turn.role != "system"), len(turns))


def _turn(index: int, message: Any) -> Turn:
    role = _ROLES.get(word(message.get("role")), "other")
    content = message.get("content")
    texts = tuple(part_texts(content, ("text",)))
    return Turn(
        index=index,
        role=role,
        said=() if role == "tool" else texts,
        results=texts if role == "tool" else (),
        content=content,
        calls_tools=bool(message.get("tool_calls")),
        takes_block=role == "user" and with_part(content, "", "text") is not None,
    )
