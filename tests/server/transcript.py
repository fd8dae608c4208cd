"""Transcripts: which calls of the services requests over HTTP become, and what they answer.

A scenario begins with a line `# what it shows`. `<` sets a field of `RecordingService`, or `limits`. `$` is a
request: headers as NAME='VALUE', the method, the path and the body. What follows is recorded: `>` a call of a
service without what has its default, `|` the status and the reply.

`python -m tests.server.transcript` records all of them again; read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from agentctx import errors, wire
from agentctx.config.schema import LimitSettings
from tests.server.recording import RecordingService
from tests.server.running import Running, running

FOLDER: Final = Path(__file__).parent / "transcripts"
_WORDS: Final = {**vars(errors), **{name: getattr(wire, name) for name in dir(wire)}}
_REQUEST: Final = re.compile(
    r"(?P<headers>(?:[\w-]+='[^']*' )*)(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<body>.*))?"
)


async def recorded(text: str) -> str:
    """Send the requests of a transcript and return it with what came of them now."""
    scenarios = re.split(r"(?m)^(?=# )", text)
    return "".join([line for each in scenarios async for line in _scenario(each.splitlines())])


async def _scenario(lines: list[str]) -> AsyncIterator[str]:
    names = {"LimitSettings": LimitSettings, **_WORDS}
    given = dict(line[2:].split(" ", 1) for line in lines if line.startswith("< "))
    values = {name: eval(value, dict(names)) for name, value in given.items()}  # noqa: S307 - part of the test
    limits = values.pop("limits", None)
    async with running(RecordingService(**values), limits=limits) as daemon:
        for line in lines:
            if line[:1] in {"#", "<", "$", ""}:
                yield f"{line}\n"
            if line.startswith("$ "):
                async for came in _exchange(line[2:], daemon):
                    yield f"{came}\n"


async def _exchange(line: str, daemon: Running) -> AsyncIterator[str]:
    request = _REQUEST.fullmatch(line)
    assert request, line
    seen = len(daemon.service.calls)
    headers = dict(re.findall(r"([\w-]+)='([^']*)'", request["headers"]))
    body = None if request["body"] is None else request["body"].encode()
    reply = await daemon.http.request(request["method"], request["path"], headers=headers, content=body)
    for name, args, named in daemon.service.calls[seen:]:
        given = [
            *map(_shown, args),
            *(f"{key}={_shown(each)}" for key, each in named.items() if each is not None),
        ]
        yield f"> {name}({', '.join(given)})"
    yield f"| {reply.status_code} {_answer(reply)}"


def _answer(reply: httpx.Response) -> str:
    try:
        text = json.dumps(reply.json(), ensure_ascii=False)
    except ValueError:
        text = f"{reply.headers.get('content-type', '')} {reply.text!r}"
    return re.sub(r'"request_id": "[^"]+"', '"request_id": "ID"', text)


def _shown(value: object) -> str:
    """Return a value as it is written, without fields that have their default."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if not is_dataclass(value):
        return repr(value)
    given: Mapping[str, Any] = {each.name: getattr(value, each.name) for each in fields(value)}
    changed = [
        f"{each.name}={_shown(given[each.name])}"
        for each in fields(value)
        if given[each.name] != each.default
    ]
    return f"{type(value).__name__}({', '.join(changed)})"


if __name__ == "__main__":
    for file in FOLDER.glob("*.txt"):
        file.write_text(asyncio.run(recorded(file.read_text("utf-8"))), "utf-8")
