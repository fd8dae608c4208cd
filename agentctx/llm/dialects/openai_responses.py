"""OpenAI's Responses: `instructions`, and `input`, which is a string or items of many types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.llm.dialects.base import BodyReading, Dialect, Role, Turn
from agentctx.llm.dialects.content import (
    Body,
    appended,
    in_system_message,
    listed,
    mapping,
    part_texts,
    replaced,
    with_part,
    word,
)

_TEXT_PARTS = ("input_text", "output_text", "text")
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class OpenAIResponses(Dialect):
    """`POST /v1/responses`.

    With `previous_response_id` or `conversation`, the API keeps earlier input, so a body holds only new
    items. `instructions` are not kept: a block there is gone with the next call, which is why it goes there
    and not into `input`.
    """

    name = "openai_responses"
    turns_field = "input"
    text_part = "input_text"

    def items(self, body: Body) -> Sequence[Any]:
        given = body.get("input")
        return [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)

    def turn(self, index: int, item: Mapping[str, Any]) -> Turn:
        role = _role(item)
        content = item.get("output") if role == "tool" else item.get("content")
        texts = tuple(part_texts(content, _TEXT_PARTS))
        return Turn(
            index=index,
            role=role,
            texts=() if role == "tool" else texts,
            results=texts if role == "tool" else (),
            content=content,
            calls_tools=role == "assistant" and word(item.get("type")).endswith("_call"),
            takes_block=role == "user" and with_part(content, "", "input_text") is not None,
        )

    def system_texts(self, body: Body) -> Sequence[str]:
        instructions = body.get("instructions")
        return (instructions,) if isinstance(instructions, str) else ()

    def inject_system(self, body: Body, block: str) -> Body:
        given, instructions = body.get("input"), body.get("instructions")
        if not block or not isinstance(given, str | list | tuple) or not given:
            return body
        is_kept = bool(body.get("previous_response_id") or body.get("conversation"))
        roles = [] if is_kept or isinstance(given, str) else [turn.role for turn in self.turns(body)]
        if "system" in roles:
            changed = in_system_message(roles, listed(given), block, self.text_part)
            return body if changed is None else replaced(body, "input", changed)
        if instructions is None or isinstance(instructions, str):
            return replaced(body, "instructions", appended(instructions or "", block))
        return body

    def inject_after(self, body: Body, turn_index: int, block: str) -> Body:
        given = body.get("input")
        if block and given and isinstance(given, str):
            return replaced(body, "input", appended(given, block)) if turn_index == 0 else body
        return super().inject_after(body, turn_index, block)

    def conversation_key(self, body: Body, reading: BodyReading | None = None) -> str | None:
        """Use the API's own conversation, the chain of replies, or the first messages."""
        if kept := _kept_conversation(body):
            return f"conversation:{kept}"
        previous = word(body.get("previous_response_id"))
        return f"response:{previous}" if previous else super().conversation_key(body, reading)

    def reply_key(self, body: Body, reply: Any) -> str | None:
        """`reply` is a response, or an event that carries one (the first is `response.created`)."""
        response = mapping(reply).get("response", reply)
        reply_id = word(mapping(response).get("id"))
        if not reply_id or mapping(response).get("object") != "response" or _kept_conversation(body):
            return None
        return self.conversation_key({**body, "previous_response_id": reply_id})


def _kept_conversation(body: Body) -> str:
    conversation = body.get("conversation")
    return word(conversation) or word(mapping(conversation).get("id"))


def _role(item: Mapping[str, Any]) -> Role:
    kind = word(item.get("type"))
    if kind in {"", "message"}:
        return _ROLES.get(word(item.get("role")), "other")
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return "tool"
    return "assistant" if kind.endswith("_call") or kind == "reasoning" else "other"
