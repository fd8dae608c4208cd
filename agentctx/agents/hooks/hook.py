"""`agentctx hook`: handle one hook event of an agent quickly and silently, or do nothing.

Even on errors, the exit code is 0 or 1, because 2 would make a client reject the user's prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from agentctx.agents.arguments import UsageError, last_of, namespaces_in, parsed
from agentctx.agents.daemon import DaemonAway, DaemonRefused, DaemonUnavailable, ask, socket_path
from agentctx.agents.hooks.hook_events import (
    BETWEEN_BLOCKS,
    CLIENTS,
    END_EVENTS,
    MAX_BLOCK_CHARS,
    MESSAGE_CLIENTS,
    SAVING_EVENTS,
    START_EVENTS,
    block_of,
    output,
    question,
    session_of,
    without_room,
)
from agentctx.agents.hooks.tool_events import TOOL_EVENTS
from agentctx.config.project import namespaces_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, Final

    from agentctx.agents.hooks.hook_events import HookQuestion

DEADLINE_S: Final = 0.3
"""Maximum time by which a prompt is delayed."""
STOP_DEADLINE_S: Final = 2.0
"""Longer than for a prompt, because the user does not wait for it."""
END_DEADLINE_S: Final = 1.0
"""Claude Code kills hooks that run for over 1.5 s at the end of a session, and reports an error."""
_SPARE_S: Final = 0.2
"""Extra time to note a turn that could not be saved."""
MAX_EVENT_BYTES: Final = 8 << 20


def main(args: Sequence[str]) -> int:
    """Handle one event; return the exit code."""
    try:
        words, options = parsed(
            args, options=("--client", "--socket", "--namespace", "--remember"), flags=("--remember",)
        )
        client = last_of(options, "--client") or ""
        if len(words) != 1 or client not in CLIENTS:
            raise UsageError(f"Use agentctx hook EVENT --client NAME. NAME is one of {', '.join(CLIENTS)}.")
        event = words[0]
        options["--namespace"] = namespaces_in(options)
    except UsageError as error:
        sys.stderr.write(f"agentctx hook: {error}\n")
        return 1
    _end_at_deadline(seconds_for(event) + (_SPARE_S if event in SAVING_EVENTS else 0))
    answer = _answer(event, client, options)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if answer is not None:
        os.write(1, json.dumps(answer).encode() + b"\n")
    return 0


def seconds_for(event: str) -> float:
    """Return the time limit of an event."""
    if event in END_EVENTS:
        return END_DEADLINE_S
    return STOP_DEADLINE_S if event in SAVING_EVENTS else DEADLINE_S


def handle(
    event: str,
    client: str,
    payload: Mapping[str, Any],
    *,
    namespaces: Sequence[str],
    socket: str,
    remember: object,
) -> dict[str, Any] | None:
    """Handle an event and return the JSON for the client, or None. Saves go to the first namespace.

    `remember`: nothing is saved if it is false; what `review` saves waits.
    """
    deadline = time.monotonic() + seconds_for(event)
    block = notice = ""
    try:
        if event in SAVING_EVENTS:
            if remember:
                _capture(event, client, payload, namespaces[0], socket, deadline, waits=remember == "review")
        elif asked := question(event, client, dict(payload), namespaces=namespaces):
            block = _blocks(asked, socket, deadline)
        if event in START_EVENTS:
            notice = _waiting_notice(socket, deadline)
    except DaemonAway as away:
        signal.setitimer(signal.ITIMER_REAL, 0)  # what is noted as said must be said
        notice = _away_notice(away, event, client, payload)
    except DaemonUnavailable:
        pass  # busy: a hook stays silent rather than blocking its agent
    except DaemonRefused as refusal:
        notice = _notice(refusal, client, payload) if event in SAVING_EVENTS else ""
    if notice and client not in MESSAGE_CLIENTS:
        sys.stderr.write(f"{notice}\n")
    return output(event, client, block, notice)


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
        remember=last_of(options, "--remember"),
    )


def _blocks(asked: HookQuestion, socket: str, deadline: float) -> str:
    blocks: list[str] = []
    left_out, room = 0, MAX_BLOCK_CHARS
    for body in asked.bodies:
        if left_out and body["query"]:  # nothing else takes the room of rules
            break
        reply = ask(socket, "POST", "/v1/context", body, timeout_s=deadline - time.monotonic())
        if block := block_of(reply, trusted=asked.trusted, room=room):
            blocks.append(block)
            room -= len(block) + len(BETWEEN_BLOCKS)
        left_out += reply.get("left_out", 0)
    return BETWEEN_BLOCKS.join([*blocks, *filter(None, [without_room(left_out)])])


def _capture(
    event: str,
    client: str,
    payload: Mapping[str, Any],
    namespace: str,
    socket: str,
    deadline: float,
    *,
    waits: bool,
) -> None:
    from agentctx.agents.hooks.capture import TranscriptUnreadable, TurnCapture

    session = session_of(dict(payload)) or "hook"
    try:
        TurnCapture(client, session, namespace, socket, deadline, waits).capture(event, payload)
    except TranscriptUnreadable as error:
        sys.stderr.write(f"agentctx hook: {error}\n")


def _notice(refusal: DaemonRefused, client: str, payload: Mapping[str, Any]) -> str:
    """Return the message for the user about a refused save; empty if this session already had one."""
    if not _is_first("refused", client, session_of(dict(payload)) or "hook", otherwise=True):
        return ""
    why = f"{refusal.message.rstrip('.')}. {refusal.hint}".strip()
    return f"agentctx could not save this turn. {why} It says so once a session; `agentctx doctor` counts on."


def _away_notice(away: DaemonAway, event: str, client: str, payload: Mapping[str, Any]) -> str:
    """Return the message for the user that there are no memories; empty if this session already had one."""
    if event in TOOL_EVENTS:
        return ""
    is_said, session = event in START_EVENTS, session_of(dict(payload))
    if session and event not in END_EVENTS:
        is_said = _is_first("away", client, session, otherwise=is_said)
    return f"agentctx: this session gets no memories. {away} (Said once a session.)" if is_said else ""


def _waiting_notice(socket: str, deadline: float) -> str:
    """Return how many entries wait for a review, for the user; empty if none does, or it was said today."""
    found = ask(socket, "GET", "/v1/review", None, timeout_s=deadline - time.monotonic())["captures"]
    count = sum(each["waiting"] for each in found)
    if not count or not _is_first("waiting", "any", time.strftime("%Y-%m-%d"), otherwise=False):
        return ""
    wait = "1 memory waits" if count == 1 else f"{count:,} memories wait"
    return f"agentctx: {wait} for your review, in no answer until then: `agentctx review`. (Said once a day.)"


def _is_first(what: str, client: str, session: str, *, otherwise: bool) -> bool:
    """Return whether a session has not shown this yet, or `otherwise` where no note can be kept."""
    from agentctx.agents.hooks.missed_turns import MissedTurns

    try:
        return MissedTurns.of_user().note_shown(what, client, session)
    except OSError:
        return otherwise


def _payload() -> dict[str, Any]:
    try:
        with open(0, "rb", closefd=False) as stdin:
            event = json.loads(stdin.read(MAX_EVENT_BYTES))
    except (OSError, ValueError, RecursionError):  # closed, or not JSON
        return {}
    return event if isinstance(event, dict) else {}


def _folder(client: str, payload: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Return the project's folder. Claude Code's `cwd` follows the agent's `cd`, but its variable does not;
    Cursor runs hooks in its own folder and passes the window's folders.
    """
    project = env.get("CLAUDE_PROJECT_DIR") if client == "claude-code" else None
    roots = payload.get("workspace_roots")
    named = [project, *(roots if isinstance(roots, list) else []), payload.get("cwd")]
    return next((each for each in named if isinstance(each, str) and each), os.curdir)
