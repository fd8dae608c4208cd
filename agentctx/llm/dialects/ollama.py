"""Ollama's chat: `messages` whose contents are strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.llm.dialects.base import Dialect, Role, Turn
from agentctx.llm.dialects.content import Body, with_system_message, word

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class Ollama(Dialect):
    """`POST /api/chat`.

    Model templates read a single system message, so a block is appended to the client's. Without one, the
    block becomes the system message, and replaces a `SYSTEM` in the model itself.
    """

    name = "ollama"
    is_messages_alone = True

    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        role = _ROLES.get(word(item.get("role")), "other")
        content = item.get("content")
        texts = (content,) if isinstance(content, str) else ()
        return Turn(
            index=index,
            role=role,
            texts=() if role == "tool" else texts,
            results=texts if role == "tool" else (),
            content=[content, item.get("images")],
            calls_tools=bool(item.get("tool_calls")),
            takes_block=role == "user" and bool(texts and texts[0]),
        )

    def inject_system(self, body: Body, block: str) -> Body:
        return with_system_message(body, [turn.role for turn in self.turns(body)], block)
