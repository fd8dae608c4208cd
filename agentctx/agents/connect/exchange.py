"""Tests a bridge with one request, as an agent would make it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Final

from agentctx.agents.connect.edits import ConfigEdit

EXCHANGE_S: Final = 20.0


class ExchangeFailed(Exception):
    """The bridge, or the daemon behind it, does not answer; the message says why."""


def exchange(command: Sequence[str]) -> None:
    """Start a server as an agent does, and send it one search.

    Raises:
        ExchangeFailed: the server does not answer, or reports an error.
    """
    call = {"name": "search", "arguments": {"query": "connection check", "limit": 1}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    try:
        done = subprocess.run(  # noqa: S603 - the same command that was written
            list(command),
            input=request.encode() + b"\n",
            capture_output=True,
            timeout=EXCHANGE_S,
            check=True,
        )
        result = json.loads(done.stdout)["result"]
        text, failed = str(result["content"][0]["text"]), bool(result["isError"])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        raise ExchangeFailed(f"The bridge does not answer ({error}).") from error
    if failed:
        raise ExchangeFailed(f"The memory does not answer. {text}")


def servers(edits: Sequence[ConfigEdit]) -> list[list[str]]:
    """Return the server commands that these edits configure."""
    return [command for edit in edits for command in _commands(_value(edit))]


def _value(edit: ConfigEdit) -> Any:
    if edit.kind != "file":
        return edit.value
    try:
        return json.loads(str(edit.value))
    except ValueError:
        return None


def _commands(value: Any) -> Iterator[list[str]]:
    if not isinstance(value, dict):
        return
    command = value.get("command")
    words = command if isinstance(command, list) else [command, *(value.get("args") or [])]
    if "mcp" in words[1:] and all(isinstance(word, str) for word in words):
        yield words
    for item in value.values():
        yield from _commands(item)
