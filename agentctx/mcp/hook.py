"""`agentctx hook`: handle one hook event of an agent, quietly and quickly, or do nothing.

Even on errors the exit code is 0 or 1, because 2 makes a client refuse the user's prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from agentctx.mcp.arguments import UsageError, last_of, parsed
from agentctx.mcp.daemon import DaemonAway, DaemonRefused, ask, socket_path
from agentctx.mcp.hook_events import (
    BETWEEN_BLOCKS,
    CLIENTS,
    MAX_BLOCK_CHARS,
    STOP_EVENTS,
    SUMMARY_EVENTS,
    block_of,
    output,
    question,
    remembered,
)
from agentctx.mcp.project import namespaces_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, Final

    from agentctx.mcp.hook_events import HookQuestion
    from agentctx.mcp.transcripts import TranscribedTurn

DEADLINE_S: Final = 0.3
"""Maximum delay of a prompt."""
STOP_DEADLINE_S: Final = 2.0
"""The user does not wait while the end of a turn is saved."""
MAX_EVENT_BYTES: Final = 8 << 20
MAX_TAIL_BYTES: Final = 1 << 20
"""Bytes read from the end of a transcript, which holds the last turn."""
_WRITING_S: Final = 1.0
"""Time for a client to write the turn to its transcript: Copilot and Claude Code report the end first."""
_ENDS: Final = ("Stop", "agentStop")
"""What clients with transcripts call the end of a turn."""
_LOOK_AGAIN_S: Final = 0.05


def main(args: Sequence[str]) -> int:
    """Handle one event; return the exit code."""
    try:
        words, options = parsed(args, options=("--client", "--socket", "--namespace"), flags=("--remember",))
        event, client = _named(words, options)
    except UsageError as error:
        sys.stderr.write(f"agentctx hook: {error}\n")
        return 1
    _end_at_deadline(seconds_for(event))
    answer = _answer(event, client, options)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if answer is not None:
        os.write(1, json.dumps(answer).encode() + b"\n")
    return 0


def seconds_for(event: str) -> float:
    """Return the time limit of an event."""
    return STOP_DEADLINE_S if event in STOP_EVENTS | SUMMARY_EVENTS else DEADLINE_S


def handle(
    event: str,
    client: str,
    payload: Mapping[str, Any],
    *,
    namespaces: Sequence[str],
    socket: str,
    remember: bool,
) -> dict[str, Any] | None:
    """Handle an event and return the client's JSON, or None. Saves go to the first namespace."""
    deadline = time.monotonic() + seconds_for(event)
    block = ""
    try:
        if event in STOP_EVENTS | SUMMARY_EVENTS:
            if remember:
                _save(event, client, dict(payload), namespaces[0], socket, deadline)
        elif wanted := question(event, client, dict(payload), namespaces=namespaces):
            block = _shown(wanted, socket, deadline)
    except (DaemonAway, DaemonRefused):
        block = ""  # a hook stays silent rather than block its agent
    return output(event, client, block)


def _named(words: Sequence[str], options: Mapping[str, list[str]]) -> tuple[str, str]:
    client = last_of(options, "--client") or ""
    if len(words) != 1 or client not in CLIENTS:
        raise UsageError(f"Use agentctx hook EVENT --client NAME, with a name of {', '.join(CLIENTS)}.")
    return words[0], client


def _end_at_deadline(seconds: float) -> None:
    """Exit silently when the time is up, even while waiting."""

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        os._exit(0)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(event: str, client: str, options: Mapping[str, list[str]]) -> dict[str, Any] | None:
    payload = _payload()
    return handle(
        event,
        client,
        payload,
        namespaces=options.get("--namespace") or namespaces_of(_folder(client, payload, os.environ)),
        socket=socket_path(last_of(options, "--socket")),
        remember="--remember" in options,
    )


def _shown(wanted: HookQuestion, socket: str, deadline: float) -> str:
    """Return the blocks that answer a question."""
    blocks: list[str] = []
    room = MAX_BLOCK_CHARS
    for body in wanted.bodies:
        reply = ask(socket, "POST", "/v1/context", body, timeout_s=deadline - time.monotonic())
        if block := block_of(reply, trusted=wanted.trusted, room=room):
            blocks.append(block)
            room -= len(block) + len(BETWEEN_BLOCKS)
    return BETWEEN_BLOCKS.join(blocks)


def _save(
    event: str, client: str, payload: dict[str, Any], namespace: str, socket: str, deadline: float
) -> None:
    """Save what an event yields; a refused entry does not prevent the rest from being saved."""
    refusal: DaemonRefused | None = None
    for body, key in remembered(event, client, payload, _last_turn(event, payload), namespace=namespace):
        try:
            left = deadline - time.monotonic()
            ask(socket, "POST", "/v1/entries", body, timeout_s=left, idempotency_key=key)
        except DaemonRefused as error:
            refusal = error
    if refusal is not None:
        raise refusal


def _last_turn(event: str, payload: Mapping[str, Any]) -> TranscribedTurn:
    """Return the last turn of the client's transcript, or of the messages in the event itself."""
    from agentctx.mcp.transcripts import last_turn, parsed_lines

    messages = payload.get("messages")
    if isinstance(messages, list):
        return last_turn(each for each in messages if isinstance(each, dict))
    path = payload.get("transcript_path") or payload.get("transcriptPath")
    if not isinstance(path, str):
        return last_turn([])
    until = time.monotonic() + _WRITING_S
    while True:
        turn = last_turn(parsed_lines(_tail(path)))
        if event not in _ENDS or _is_whole(turn, payload) or time.monotonic() > until:
            return turn
        time.sleep(_LOOK_AGAIN_S)


def _is_whole(turn: TranscribedTurn, payload: Mapping[str, Any]) -> bool:
    """Return whether the transcript and the event together have both the prompt and the answer."""
    prompt = payload.get("prompt") or turn.prompt
    return bool(prompt and (payload.get("last_assistant_message") or turn.answer))


def _tail(path: str) -> list[str]:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_TAIL_BYTES))
            return file.read(MAX_TAIL_BYTES).decode(errors="replace").splitlines()
    except (OSError, ValueError):  # it is the client's file: it may be gone, or not be a regular file
        return []


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking, because a pipe may never have a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _payload() -> dict[str, Any]:
    try:
        with open(0, "rb", closefd=False) as stdin:
            event = json.loads(stdin.read(MAX_EVENT_BYTES))
    except (OSError, ValueError, RecursionError):  # closed, or not JSON
        return {}
    return event if isinstance(event, dict) else {}


def _folder(client: str, payload: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Return the project's folder. Claude Code's `cwd` follows the agent's `cd`, its variable does not;
    Cursor runs hooks in its own folder and passes the folders of the window.
    """
    project = env.get("CLAUDE_PROJECT_DIR") if client == "claude-code" else None
    roots = payload.get("workspace_roots")
    named = [project, *(roots if isinstance(roots, list) else []), payload.get("cwd")]
    return next((each for each in named if isinstance(each, str) and each), os.curdir)
