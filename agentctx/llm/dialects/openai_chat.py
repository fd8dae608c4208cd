"""OpenAI's chat completions: `messages` with roles; one or more of them are the system prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.llm.dialects.base import Dialect, Role, Turn
from agentctx.llm.dialects.content import Body, part_texts, with_part, with_system_message, word

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

    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        role = _ROLES.get(word(item.get("role")), "other")
        content = item.get("content")
        texts = tuple(part_texts(content, ("text",)))
        return Turn(
            index=index,
            role=role,
            texts=() if role == "tool" else texts,
            results=texts if role == "tool" else (),
            content=content,
            calls_tools=bool(item.get("tool_calls")),
            takes_block=role == "user" and with_part(content, "", "text") is not None,
        )

    def inject_system(self, body: Body, block: str) -> Body:
        return with_system_message(body, [turn.role for turn in self.turns(body)], block)
