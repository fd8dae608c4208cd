"""`agentctx hook`: one event of an agent's hook. It is quiet and quick, or it does nothing at all.

Whatever goes wrong, the exit code is 0 or 1: with 2, a client would refuse the user's prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from agentctx.mcp.arguments import UsageError, last_of, parsed
from agentctx.mcp.daemon import DaemonAway, DaemonRefused, ask, socket_path
from agentctx.mcp.hook_events import (
    BETWEEN_BLOCKS,
    CLIENTS,
    MAX_BLOCK_CHARS,
    STOP_EVENTS,
    HookQuestion,
    RememberedEntry,
    block_of,
    decided,
    output,
)
from agentctx.mcp.project import namespaces_of
from agentctx.mcp.transcripts import last_prompt

DEADLINE_S: Final = 0.3
"""A prompt waits no longer than this."""
STOP_DEADLINE_S: Final = 2.0
"""Nobody waits for the end of a turn to be saved."""
MAX_EVENT_BYTES: Final = 8 << 20
MAX_TAIL_BYTES: Final = 1 << 20
"""Of a transcript, whose end has the last prompt."""


def main(args: Sequence[str]) -> int:
    """Handle one event; returns the exit code."""
    try:
        words, options = parsed(args, options=("--client", "--socket", "--namespace"), flags=("--remember",))
        event, client = _named(words, options)
    except UsageError as error:
        sys.stderr.write(f"agentctx hook: {error}\n")
        return 1
    seconds = STOP_DEADLINE_S if event in STOP_EVENTS else DEADLINE_S
    _end_at_deadline(seconds)
    answer = _answer(event, client, options, time.monotonic() + seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if answer is not None:
        os.write(1, json.dumps(answer).encode() + b"\n")
    return 0


def _named(words: Sequence[str], options: Mapping[str, list[str]]) -> tuple[str, str]:
    client = last_of(options, "--client") or ""
    if len(words) != 1 or client not in CLIENTS:
        raise UsageError(f"Use agentctx hook EVENT --client NAME, with a name of {', '.join(CLIENTS)}.")
    return words[0], client


def _end_at_deadline(seconds: float) -> None:
    """Exit without a word when time is up, whatever is being waited for."""

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        os._exit(0)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(
    event: str, client: str, options: Mapping[str, list[str]], deadline: float
) -> dict[str, Any] | None:
    payload = with_prompt(event, _payload())
    namespaces = options.get("--namespace") or namespaces_of(_folder(client, payload, os.environ))
    wanted = decided(event, client, payload, namespaces=namespaces, remember="--remember" in options)
    path = socket_path(last_of(options, "--socket"))
    try:
        block = act(wanted, path, deadline)
    except (DaemonAway, DaemonRefused):
        block = ""
    return output(event, client, block)


def act(wanted: HookQuestion | RememberedEntry | None, path: Path, deadline: float) -> str:
    """Do what an event wants until the deadline (monotonic, seconds); the text to show.

    Raises:
        DaemonAway, DaemonRefused: the daemon did not do it.
    """
    if isinstance(wanted, RememberedEntry):
        ask(path, "POST", "/v1/entries", wanted.body, timeout_s=deadline - time.monotonic())
    blocks: list[str] = []
    if isinstance(wanted, HookQuestion):
        room = MAX_BLOCK_CHARS
        for body in wanted.bodies:
            reply = ask(path, "POST", "/v1/context", body, timeout_s=deadline - time.monotonic())
            if block := block_of(reply, trusted=wanted.trusted, room=room):
                blocks.append(block)
                room -= len(block) + len(BETWEEN_BLOCKS)
    return BETWEEN_BLOCKS.join(blocks)


def with_prompt(event: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The end of a turn together with its prompt, which only the transcript has in some clients."""
    path = payload.get("transcript_path") or payload.get("transcriptPath")
    if event not in STOP_EVENTS or payload.get("prompt") or not isinstance(path, str):
        return payload
    return payload | {"prompt": last_prompt(_tail(Path(path)))}


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_TAIL_BYTES))
            return file.read(MAX_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:  # it is the client's file, and may be gone
        return []


def _payload() -> dict[str, Any]:
    try:
        event = json.loads(sys.stdin.buffer.read(MAX_EVENT_BYTES))
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _folder(client: str, payload: Mapping[str, Any], env: Mapping[str, str]) -> Path:
    """The project's folder. Claude Code's `cwd` follows the agent's `cd`, its variable does not."""
    project = env.get("CLAUDE_PROJECT_DIR") if client == "claude-code" else None
    cwd = payload.get("cwd")
    return Path(project or (cwd if isinstance(cwd, str) and cwd else os.curdir)).absolute()
