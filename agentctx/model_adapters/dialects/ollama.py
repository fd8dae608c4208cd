"""Ollama's chat: `messages` whose contents are strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.model_adapters.dialects.base import Dialect, Role, Turn
from agentctx.model_adapters.dialects.content import (
    Body,
    appended,
    inserted,
    listed,
    mapping,
    replaced,
    with_item,
    word,
)
from agentctx.model_adapters.dialects.openai_chat import leading_system_messages

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class Ollama(Dialect):
    """`POST /api/chat`.

    Model templates read a single system message, so a block is appended to the client's. Without one, the
    block becomes the system message, and replaces a `SYSTEM` in the model itself.
    """

    name = "ollama"
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
        if not place:
            first = {"role": "system", "content": block}
            return replaced(body, "messages", inserted(messages, 0, first))
        return _appended_to(body, messages, place - 1, block)

    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        messages = listed(body.get("messages"))
        if not block or not 0 <= turn_index < len(messages):
            return body
        message = mapping(messages[turn_index])
        if message.get("role") != "user" or not message.get("content"):
            return body
        return _appended_to(body, messages, turn_index, block)


def _appended_to(body: Body, messages: Sequence[Any], index: int, block: str) -> Body:
    message = mapping(messages[index])
    content = message.get("content")
    if not isinstance(content, str):
        return body
    changed = {**message, "content": appended(content, block)}
    return replaced(body, "messages", with_item(messages, index, changed))


def _turn(index: int, message: Mapping[str, Any]) -> Turn:
    role = _ROLES.get(word(message.get("role")), "other")
    content = message.get("content")
    texts = (content,) if isinstance(content, str) else ()
    return Turn(
        index=index,
        role=role,
        said=() if role == "tool" else texts,
        results=texts if role == "tool" else (),
        content=[content, message.get("images")],
        calls_tools=bool(message.get("tool_calls")),
        takes_block=role == "user" and bool(texts and texts[0]),
    )
