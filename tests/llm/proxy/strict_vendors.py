"""Servers that each refuse one thing that real ones refuse, and calls that they take as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Body = dict[str, Any]
Refuses = Callable[[Body], object]
ROW = "x-strict-row"
"""The header that names the row that a request is for."""


@dataclass(frozen=True)
class Strict:
    """One server. `call` makes the client's body from its question."""

    path: str
    call: Callable[[str], Body]
    refuses: Refuses
    status: int = 400


def _nodes(value: Any) -> Iterator[Any]:
    yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(child)


def _objects(body: Body) -> Iterator[Body]:
    return (node for node in _nodes(body) if isinstance(node, dict))


def _turns(body: Body) -> list[Body]:
    given = body.get("messages", body.get("contents", body.get("input")))
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _roles(body: Body) -> list[str]:
    return [each.get("role", "") for each in _turns(body)]


def _contents(body: Body) -> list[Any]:
    return [each.get("content", each.get("parts")) for each in _turns(body)]


def _keys(body: Body, known: str) -> bool:
    return bool(set(body) - set(known.split()))


def _has_text_parts(body: Body, most: int) -> bool:
    return any(
        isinstance(content, list) and sum("text" in part for part in content) > most
        for content in _contents(body)
    )


def _size(body: Body) -> int:
    return len(json.dumps(body))


def _repeats(roles: list[str], *kinds: str) -> bool:
    return any(one == other and (not kinds or one in kinds) for one, other in pairwise(roles))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _any_list(body: Body) -> bool:
    return any(map(_is_list, _contents(body)))


def _empty_texts(body: Body) -> bool:
    return any(each.get("text") == "" or each.get("content") in ("", []) for each in _objects(body))


SYSTEM = "You are terse."
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def _chat(*before: Body, stream: bool = False) -> Callable[[str], Body]:
    extra = {"stream": True} if stream else {}
    return lambda text: {"messages": [*before, {"role": "user", "content": text}], **extra}


def _chat_parts(*others: Body, kind: str = "text") -> Callable[[str], Body]:
    return lambda text: {
        "messages": [{"role": "user", "content": [*others, {"type": kind, "text": text}]}],
        "stream": True,
    }


def _tool_round(text: str) -> Body:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": text},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "found"},
        ]
    }


def _responses(given: Callable[[str], Any], **fields: Any) -> Callable[[str], Body]:
    return lambda text: {"input": given(text), **fields}


def _items(*before: Body) -> Callable[[str], list[Body]]:
    return lambda text: [*before, {"type": "message", "role": "user", "content": text}]


def _messages(content: Callable[[str], Any] = str, **fields: Any) -> Callable[[str], Body]:
    return lambda text: {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": content(text)}],
        **fields,
    }


def _gemini(**fields: Any) -> Callable[[str], Body]:
    return lambda text: {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}


def _part(text: str) -> list[Body]:
    return [{"type": "text", "text": text}]


_SYSTEM = {"role": "system", "content": SYSTEM}
_DEVELOPER = {"role": "developer", "content": SYSTEM}
_HISTORY = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"})
CHAT, RESPONSES = "/openai/v1/chat/completions", "/openai/v1/responses"
MESSAGES, GEMINI = "/anthropic/v1/messages", "/gemini/v1beta/models/{row}:generateContent"
OLLAMA = "/ollama/api/chat"
LIMIT = 400
"""Bytes of a body that a client's call stays below, and one with context exceeds."""
CHARS = 150
"""The same for the characters of its texts."""

STRICT: Mapping[str, Strict] = {
    # OpenAI's chat completions, and what copies them.
    "content is a string": Strict(CHAT, _chat(_SYSTEM), _any_list, 422),
    "content is a string, streamed": Strict(CHAT, _chat(_SYSTEM, stream=True), _any_list, 422),
    "one system message": Strict(CHAT, _chat(_SYSTEM), lambda b: _roles(b).count("system") > 1),
    "one system message, in parts": Strict(
        CHAT, _chat({"role": "system", "content": _part(SYSTEM)}), lambda b: _roles(b).count("system") > 1
    ),
    "system comes first": Strict(CHAT, _chat(_SYSTEM, *_HISTORY), lambda b: "system" in _roles(b)[1:]),
    "no system role": Strict(CHAT, _chat(), lambda b: "system" in _roles(b)),
    "no developer role": Strict(CHAT, _chat(_SYSTEM), lambda b: "developer" in _roles(b), 422),
    "developer, no system": Strict(CHAT, _chat(_DEVELOPER), lambda b: "system" in _roles(b)),
    "known fields of a message": Strict(
        CHAT, _chat(_SYSTEM), lambda b: any(_keys(each, "role content") for each in _turns(b)), 422
    ),
    "known fields of a body": Strict(CHAT, _chat(), lambda b: _keys(b, "model messages stream"), 422),
    "text parts alone": Strict(
        CHAT, _chat_parts(), lambda b: any(each.get("type", "text") != "text" for each in _objects(b))
    ),
    "one text part": Strict(CHAT, _chat_parts(PICTURE), lambda b: _has_text_parts(b, 1), 422),
    "text parts of another type": Strict(
        CHAT,
        _chat_parts(kind="input_text"),
        lambda b: any(each.get("type", "input_text") != "input_text" for each in _objects(b)),
    ),
    "no two user messages in a row": Strict(CHAT, _chat(_SYSTEM), lambda b: _repeats(_roles(b), "user")),
    "roles alternate": Strict(
        CHAT, _chat(*_HISTORY), lambda b: _repeats(_roles(b)) or _roles(b)[0] != "user"
    ),
    "ends with the user": Strict(CHAT, _chat(_SYSTEM, *_HISTORY), lambda b: _roles(b)[-1] != "user"),
    "nothing after a tool result": Strict(CHAT, _tool_round, lambda b: _roles(b)[-1] != "tool"),
    "no empty text": Strict(CHAT, _chat(_SYSTEM), _empty_texts),
    "no cache_control": Strict(
        CHAT, _chat(_SYSTEM), lambda b: any("cache_control" in each for each in _objects(b))
    ),
    "a small body": Strict(CHAT, _chat(_SYSTEM), lambda b: _size(b) > LIMIT, 413),
    "a small context": Strict(
        CHAT, _chat(stream=True), lambda b: sum(len(str(each)) for each in _contents(b)) > CHARS
    ),
    "no markup in a text": Strict(CHAT, _chat(), lambda b: "<memory" in json.dumps(b), 422),
    "three messages at most": Strict(CHAT, _chat(*_HISTORY), lambda b: len(_turns(b)) > 3),
    "refuses every call": Strict(CHAT, _chat(), lambda _: True, 422),
    # OpenAI's Responses.
    "input is a string": Strict(RESPONSES, _responses(str), lambda b: not isinstance(b["input"], str)),
    "no new instructions": Strict(RESPONSES, _responses(str), lambda b: "instructions" in b),
    "no instructions": Strict(RESPONSES, _responses(_items(_SYSTEM)), lambda b: "instructions" in b),
    "short instructions": Strict(
        RESPONSES, _responses(str, instructions=SYSTEM), lambda b: len(b.get("instructions", "")) > CHARS, 422
    ),
    "items have a type": Strict(
        RESPONSES, _responses(_items()), lambda b: any("type" not in each for each in _turns(b))
    ),
    "one developer item": Strict(
        RESPONSES,
        _responses(_items(_DEVELOPER), stream=True),
        lambda b: _roles(b).count("developer") > 1 or "system" in _roles(b),
    ),
    "items are strings": Strict(RESPONSES, _responses(_items(_SYSTEM)), _any_list, 422),
    "known fields of a response": Strict(
        RESPONSES, _responses(str, store=False), lambda b: _keys(b, "model input store"), 400
    ),
    # Anthropic's Messages.
    "system is a string": Strict(MESSAGES, _messages(system=SYSTEM), lambda b: _is_list(b["system"])),
    "system is a list": Strict(
        MESSAGES, _messages(system=_part(SYSTEM)), lambda b: not _is_list(b["system"])
    ),
    "one system block": Strict(
        MESSAGES, _messages(system=_part(SYSTEM)), lambda b: len(b["system"]) > 1, 422
    ),
    "no system": Strict(MESSAGES, _messages(), lambda b: "system" in b),
    "a message is a string": Strict(MESSAGES, _messages(system=SYSTEM), _any_list, 422),
    "no empty block": Strict(MESSAGES, _messages(_part), _empty_texts),
    "no marker in a message": Strict(
        MESSAGES,
        _messages(cache_control={"type": "ephemeral"}, stream=True),
        lambda b: any("cache_control" in each for turn in _turns(b) for each in _objects(turn)),
    ),
    "a small message": Strict(MESSAGES, _messages(), lambda b: _size(b) > LIMIT, 413),
    # Gemini.
    "no system instruction": Strict(GEMINI, _gemini(), lambda b: "systemInstruction" in b),
    "one text part per content": Strict(GEMINI, _gemini(), lambda b: _has_text_parts(b, 1)),
    "contents have a role": Strict(GEMINI, _gemini(), lambda b: not all(_roles(b))),
    "cached content alone": Strict(
        GEMINI, _gemini(cachedContent="cachedContents/1"), lambda b: "systemInstruction" in b
    ),
    "known fields of a part": Strict(
        GEMINI,
        _gemini(),
        lambda b: any(_keys(part, "text") for content in _contents(b) for part in content),
    ),
    # Ollama.
    "ollama: content is a string": Strict(OLLAMA, _chat(_SYSTEM, stream=True), _any_list),
    "ollama: one system message": Strict(OLLAMA, _chat(_SYSTEM), lambda b: "system" in _roles(b)[1:]),
    "ollama: known fields": Strict(OLLAMA, _chat(), lambda b: _keys(b, "model messages stream"), 422),
}


@dataclass
class StrictServer:
    """Answers each request as the row that it names. `tries` counts the requests of each row."""

    port: int = 0
    tries: dict[str, int] = field(default_factory=dict)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                row = next(name for name in STRICT if name == fields[ROW])
                self.tries[row] = self.tries.get(row, 0) + 1
                is_refused = STRICT[row].refuses(body)
                said = f'{{"row": "{row}", "refused": {json.dumps(bool(is_refused))}}}'
                status = STRICT[row].status if is_refused else 200
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def strict_server() -> AsyncIterator[StrictServer]:
    serving = StrictServer()
    server = await asyncio.start_server(serving.answer, "127.0.0.1", 0)
    async with server:
        serving.port = server.sockets[0].getsockname()[1]
        yield serving
