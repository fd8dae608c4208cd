"""A long conversation with an agent that uses tools, and its requests in each API's format."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.texts import TextSource

Body = dict[str, Any]

MODEL_ANTHROPIC, MODEL_GEMINI = "claude-opus-4-8", "gemini-2.5-flash"
_SYSTEM_CHARACTERS = 8_000
_TOOLS = ("read_file", "search", "run_tests", "edit_file", "list_files")
_EPHEMERAL = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call and its result."""

    id: str
    name: str
    arguments: dict[str, str]
    result: str


@dataclass(frozen=True, slots=True)
class Step:
    """The turn of one side. The model is called after `user` and after `results`."""

    kind: Literal["user", "calls", "results", "answer"]
    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system prompt of 2,000 tokens, five tools, and the turns."""

    system: str
    steps: tuple[Step, ...]

    def requests(self) -> Iterator[Sequence[Step]]:
        """The turns before each model call."""
        for at, step in enumerate(self.steps, start=1):
            if step.kind in {"user", "results"}:
                yield self.steps[:at]

    @property
    def questions(self) -> list[str]:
        return [step.text for step in self.steps if step.kind == "user"]


def converse(turns: int, seed: int = 11) -> Conversation:
    """Return a conversation of this many questions, each with 1 or 2 rounds of 1 to 3 parallel calls."""
    source, chance = TextSource(seed), random.Random(seed)
    steps: list[Step] = []
    for turn in range(turns):
        question = f"{turn}: {source.question()} {source.text(chance.randint(100, 400))}"
        steps.append(Step("user", question))
        for turn_round in range(chance.randint(1, 2)):
            calls = tuple(
                Call(
                    f"call_{turn}_{turn_round}_{number}",
                    chance.choice(_TOOLS),
                    {"path": source.name()},
                    source.text(chance.randint(200, 1_500)),
                )
                for number in range(chance.randint(1, 3))
            )
            steps += [Step("calls", source.text(80), calls), Step("results", calls=calls)]
        steps.append(Step("answer", source.text(chance.randint(200, 800))))
    return Conversation(source.text(_SYSTEM_CHARACTERS), tuple(steps))


def openai_chat(conversation: Conversation, steps: Sequence[Step]) -> Body:
    messages: list[Body] = [{"role": "system", "content": conversation.system}]
    for step in steps:
        if step.kind == "results":
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": call.result} for call in step.calls
            ]
            continue
        message: Body = {"role": "user" if step.kind == "user" else "assistant", "content": step.text}
        if step.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": _function(call)} for call in step.calls
            ]
        messages.append(message)
    return {"model": "gpt-5.4-mini", "messages": messages, "tools": _openai_tools()}


def openai_responses(conversation: Conversation, steps: Sequence[Step]) -> Body:
    items: list[Body] = []
    for step in steps:
        if step.kind == "user":
            items.append({"role": "user", "content": step.text})
            continue
        if step.kind == "results":
            items += [
                {"type": "function_call_output", "call_id": call.id, "output": call.result}
                for call in step.calls
            ]
            continue
        items.append({"role": "assistant", "content": step.text})
        items += [{"type": "function_call", "call_id": call.id, **_function(call)} for call in step.calls]
    tools = [{"type": "function", **tool["function"]} for tool in _openai_tools()]
    return {"model": "gpt-5.4-mini", "instructions": conversation.system, "input": items, "tools": tools}


def anthropic_automatic(conversation: Conversation, steps: Sequence[Step]) -> Body:
    """With one `cache_control` at the top level, which moves along with the conversation."""
    messages = [{"role": _anthropic_role(step), "content": _anthropic_content(step)} for step in steps]
    system = [{"type": "text", "text": conversation.system}]
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in _openai_tools()
    ]
    return {
        "model": MODEL_ANTHROPIC,
        "max_tokens": 1_000,
        "system": system,
        "tools": tools,
        "messages": messages,
        "cache_control": _EPHEMERAL,
    }


def anthropic_breakpoints(conversation: Conversation, steps: Sequence[Step]) -> Body:
    """With the client's own markers: after the system prompt, and at the end of the user's last two turns."""
    body = anthropic_automatic(conversation, steps)
    del body["cache_control"]
    body["system"][-1]["cache_control"] = _EPHEMERAL
    for message in [message for message in body["messages"] if message["role"] == "user"][-2:]:
        message["content"][-1]["cache_control"] = _EPHEMERAL
    return body


def gemini(conversation: Conversation, steps: Sequence[Step]) -> Body:
    contents = [
        {"role": "user" if step.kind in {"user", "results"} else "model", "parts": _gemini_parts(step)}
        for step in steps
    ]
    declarations = [tool["function"] for tool in _openai_tools()]
    return {
        "systemInstruction": {"parts": [{"text": conversation.system}]},
        "contents": contents,
        "tools": [{"functionDeclarations": declarations}],
    }


def ollama(conversation: Conversation, steps: Sequence[Step]) -> Body:
    body = openai_chat(conversation, steps)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return {**body, "model": "llama3.2"}


def _anthropic_role(step: Step) -> str:
    return "user" if step.kind in {"user", "results"} else "assistant"


def _anthropic_content(step: Step) -> list[Body]:
    if step.kind == "results":
        return [
            {"type": "tool_result", "tool_use_id": call.id, "content": call.result} for call in step.calls
        ]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in step.calls
    ]
    return [{"type": "text", "text": step.text}, *calls]


def _gemini_parts(step: Step) -> list[Body]:
    if step.kind == "results":
        return [
            {"functionResponse": {"id": call.id, "name": call.name, "response": {"result": call.result}}}
            for call in step.calls
        ]
    calls = [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in step.calls
    ]
    return [{"text": step.text}, *calls]


def _function(call: Call) -> Body:
    return {"name": call.name, "arguments": json.dumps(call.arguments)}


def _openai_tools() -> list[Body]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": f"{name} of a path", "parameters": parameters},
        }
        for name in _TOOLS
    ]
