"""One conversation in each API's format: a question, two parallel tool calls, their results, an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

SYSTEM = "You are terse."
FIRST = "How do we deploy?"
ANSWER = "With make deploy."
SECOND = "And roll back?"
RESULT = "runbook found"

Body = dict[str, Any]


@dataclass(frozen=True)
class Samples:
    """The bodies of one API. Each call returns a new one."""

    asked: Callable[[], Body]
    """System prompt and FIRST, as bare strings where the API has them."""
    asked_in_parts: Callable[[], Body]
    """The same conversation with contents as parts."""
    with_picture: Callable[[], Body]
    """FIRST with a picture."""
    picture_alone: Callable[[], Body]
    tool_round: Callable[[], Body]
    """FIRST, two parallel calls, RESULT of both."""
    continued: Callable[[], Body]
    """FIRST, the tools, ANSWER, SECOND."""
    unprompted: Callable[[], Body]
    """FIRST without a system prompt."""
    system_of: Callable[[Mapping[str, Any]], list[str]]
    """The texts of the system prompt, in order."""
    user_texts: Callable[[Mapping[str, Any]], list[str]]
    """The texts of all user turns, in order."""


def _openai_chat() -> Samples:
    system = {"role": "developer", "content": SYSTEM}
    first = {"role": "user", "content": FIRST}
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")
    ]
    tools = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": RESULT},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": RESULT}]},
    ]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    def body(*messages: Any) -> Callable[[], Body]:
        return lambda: deepcopy({"model": "m", "messages": list(messages), "x_unknown": {"y": 1}})

    def texts(body: Mapping[str, Any], roles: set[str]) -> list[str]:
        return [
            text
            for message in body["messages"]
            if message["role"] in roles
            for text in _texts(message["content"])
        ]

    return Samples(
        asked=body(system, first),
        asked_in_parts=body(system, {"role": "user", "content": [{"type": "text", "text": FIRST}]}),
        with_picture=body(system, {"role": "user", "content": [picture, {"type": "text", "text": FIRST}]}),
        picture_alone=body(system, {"role": "user", "content": [picture]}),
        tool_round=body(system, first, *tools),
        continued=body(
            system,
            first,
            *tools,
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": SECOND},
        ),
        unprompted=body(first),
        system_of=lambda body: texts(body, {"system", "developer"}),
        user_texts=lambda body: texts(body, {"user"}),
    )


def _openai_responses() -> Samples:
    first = {"role": "user", "content": FIRST}
    tools = [
        {"type": "reasoning", "id": "r", "summary": []},
        *({"type": "function_call", "call_id": name, "name": name, "arguments": "{}"} for name in ("a", "b")),
        {"type": "function_call_output", "call_id": "a", "output": RESULT},
        {
            "type": "function_call_output",
            "call_id": "b",
            "output": [{"type": "input_text", "text": RESULT}],
        },
    ]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    text = {"type": "input_text", "text": FIRST}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}

    def body(given: Any, **fields: Any) -> Callable[[], Body]:
        return lambda: deepcopy({"model": "m", "input": given, "x_unknown": {"y": 1}, **fields})

    def user_texts(body: Mapping[str, Any]) -> list[str]:
        if isinstance(body["input"], str):
            return _texts(body["input"])
        users = [item for item in body["input"] if item.get("role") == "user"]
        return [text for item in users for text in _texts(item["content"])]

    def system_of(body: Mapping[str, Any]) -> list[str]:
        given = body.get("instructions")
        return given.split("\n\n", 1) if given else []

    return Samples(
        asked=body(FIRST, instructions=SYSTEM),
        asked_in_parts=body([{"role": "user", "content": [text]}], instructions=SYSTEM),
        with_picture=body([{"role": "user", "content": [picture, text]}], instructions=SYSTEM),
        picture_alone=body([{"role": "user", "content": [picture]}], instructions=SYSTEM),
        tool_round=body([first, *tools], instructions=SYSTEM),
        continued=body([first, *tools, answer, {"role": "user", "content": SECOND}], instructions=SYSTEM),
        unprompted=body(FIRST),
        system_of=system_of,
        user_texts=user_texts,
    )


def _anthropic() -> Samples:
    first = {"role": "user", "content": FIRST}
    tools = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                *({"type": "tool_use", "id": name, "name": name, "input": {}} for name in ("a", "b")),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": RESULT},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{"type": "text", "text": RESULT}],
                },
            ],
        },
    ]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    text = {"type": "text", "text": FIRST}

    def body(*messages: Any, system: Any = SYSTEM) -> Callable[[], Body]:
        fields = {} if system is None else {"system": system}
        return lambda: deepcopy(
            {"model": "m", "max_tokens": 9, **fields, "messages": list(messages), "x": [1]}
        )

    return Samples(
        asked=body(first),
        asked_in_parts=body(
            {"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]},
            system=[{"type": "text", "text": SYSTEM}],
        ),
        with_picture=body({"role": "user", "content": [picture, text]}),
        picture_alone=body({"role": "user", "content": [picture]}),
        tool_round=body(first, *tools),
        continued=body(
            first, *tools, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": SECOND}
        ),
        unprompted=body(first, system=None),
        system_of=lambda body: _texts(body.get("system", [])),
        user_texts=lambda body: [
            text for each in body["messages"] if each["role"] == "user" for text in _texts(each["content"])
        ],
    )


def _gemini() -> Samples:
    first = {"role": "user", "parts": [{"text": FIRST}]}
    tools = [
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in ("a", "b")]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": name, "response": {"output": RESULT}}} for name in ("a", "b")
            ],
        },
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}

    def body(*contents: Any, system: str | None = "systemInstruction") -> Callable[[], Body]:
        fields = {} if system is None else {system: {"parts": [{"text": SYSTEM}]}}
        return lambda: deepcopy({"model": "m", "contents": list(contents), **fields, "xUnknown": {"y": 1}})

    def system_of(body: Mapping[str, Any]) -> list[str]:
        given = body.get("systemInstruction") or body.get("system_instruction") or {"parts": []}
        return _texts(given["parts"])

    return Samples(
        asked=body(first),
        asked_in_parts=body({"parts": [{"text": FIRST}]}, system="system_instruction"),
        with_picture=body({"role": "user", "parts": [picture, {"text": FIRST}]}),
        picture_alone=body({"role": "user", "parts": [picture]}),
        tool_round=body(first, *tools),
        continued=body(
            first,
            *tools,
            {"role": "model", "parts": [{"text": ANSWER}]},
            {"role": "user", "parts": [{"text": SECOND}]},
        ),
        unprompted=body(first, system=None),
        system_of=system_of,
        user_texts=lambda body: [
            text for each in body["contents"] if each.get("role") != "model" for text in _texts(each["parts"])
        ],
    )


def _ollama() -> Samples:
    system = {"role": "system", "content": SYSTEM}
    first = {"role": "user", "content": FIRST}
    tools = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in ("a", "b")],
        },
        *({"role": "tool", "tool_name": name, "content": RESULT} for name in ("a", "b")),
    ]

    def body(*messages: Any) -> Callable[[], Body]:
        return lambda: deepcopy({"model": "m", "messages": list(messages), "options": {"seed": 1}})

    def texts(role: str) -> Callable[[Mapping[str, Any]], list[str]]:
        return lambda body: [
            text
            for message in body["messages"]
            if message["role"] == role
            for text in message["content"].split("\n\n", 1)
        ]

    return Samples(
        asked=body(system, first),
        asked_in_parts=body(system, first),
        with_picture=body(system, {**first, "images": ["AAAA"]}),
        picture_alone=body(system, {"role": "user", "content": "", "images": ["AAAA"]}),
        tool_round=body(system, first, *tools),
        continued=body(
            system,
            first,
            *tools,
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": SECOND},
        ),
        unprompted=body(first),
        system_of=texts("system"),
        user_texts=texts("user"),
    )


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return content.split("\n\n", 1)
    return [part["text"] for part in content if "text" in part]


SAMPLES = {
    "openai_chat": _openai_chat(),
    "openai_responses": _openai_responses(),
    "anthropic_messages": _anthropic(),
    "gemini": _gemini(),
    "ollama": _ollama(),
}
