"""What a hook's event asks of the memory, and the JSON that answers the client. No I/O.

A hook starts at each prompt, so nothing here imports `typing`, and what only the end of a turn needs is
imported there.
"""

from __future__ import annotations

from agentctx.mcp.injected_text import without_injected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from agentctx.mcp.remembering import RememberedEntry
    from agentctx.mcp.transcripts import TranscribedTurn

    Json = dict[str, Any]

CLIENTS: Final = ("claude-code", "codex", "gemini", "copilot", "cursor", "opencode")
PROMPT_EVENTS: Final = frozenset({"UserPromptSubmit", "BeforeAgent", "userPromptSubmitted", "chat.message"})
START_EVENTS: Final = frozenset({"SessionStart", "sessionStart"})
STOP_EVENTS: Final = frozenset({"Stop", "AfterAgent", "agentStop", "afterAgentResponse", "session.idle"})
SUMMARY_EVENTS: Final = frozenset({"PostCompact"})

MAX_QUERY_CHARS: Final = 4_000
"""The longest question that the daemon takes."""
MAX_BLOCK_CHARS: Final = 9_500
"""Claude Code and Codex cut what is over 10,000 characters."""
BETWEEN_BLOCKS: Final = "\n\n"
_SYSTEM_CLIENTS: Final = frozenset({"claude-code", "codex", "cursor"})
"""Those that put a hook's context into a message of the system."""
_START_QUERY: Final = "rules, conventions, preferences and decisions of this project"
_START: Final[tuple[Json, ...]] = (
    {"category": "rule", "limit": 10, "budget_tokens": 600},
    {"limit": 8, "budget_tokens": 500},
)
"""What a session begins with: the rules, then what else is nearest to the question."""
_KEPT_CONTEXT: Final = frozenset({"resume", "fork"})
"""Sources of a session's start with which the conversation still holds what it was given."""


class HookQuestion:
    """Questions, in order, whose blocks are shown together. `trusted`: they hold nothing from outside."""

    __slots__ = ("bodies", "trusted")

    def __init__(self, bodies: tuple[Json, ...], *, trusted: bool) -> None:
        self.bodies = bodies
        self.trusted = trusted


def question(event: str, client: str, payload: Json, *, namespaces: Sequence[str]) -> HookQuestion | None:
    """What an event asks of the daemon; None: nothing."""
    if event in PROMPT_EVENTS:
        return _about(payload, client, namespaces)
    if event in START_EVENTS:
        return _about_project(payload, client, namespaces)
    return None


def remembered(
    event: str, client: str, payload: Json, turn: TranscribedTurn, *, namespace: str
) -> list[RememberedEntry]:
    """What an event leaves to save. `turn`: the last one of the transcript."""
    from agentctx.mcp.remembering import Remembering

    about = Remembering(client, session_of(payload) or "hook", namespace)
    if event in STOP_EVENTS:
        return list(about.turn(payload, turn))
    return list(about.summary(payload.get("compact_summary"))) if event in SUMMARY_EVENTS else []


def block_of(reply: Json, *, trusted: bool, room: int = MAX_BLOCK_CHARS) -> str:
    """The block of an answer; empty when there is none, or when it may not stand where it would be put."""
    block = str(reply.get("block") or "")
    results = reply.get("results") or []
    if len(block) > room:
        return ""
    if trusted and any(hit.get("trust") == "external" or hit.get("flags") for hit in results):
        return ""
    return block


def output(event: str, client: str, block: str) -> Json | None:
    """The client's JSON; None: print nothing."""
    if event in STOP_EVENTS | SUMMARY_EVENTS:
        return {}  # context given here would make the agent go on
    if not block:
        return None
    match client:
        case "copilot" | "opencode":
            return {"additionalContext": block}
        case "cursor":
            return {"additional_context": block}
        case _:
            return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}}


def prompt_of(payload: Json) -> str:
    """What the user wrote, without context that hooks and programs put in."""
    prompt = payload.get("prompt")
    return without_injected(prompt) if isinstance(prompt, str) else ""


def position_of(client: str) -> str:
    """Where the client puts a hook's context: in a message of the system, or into the user's turn."""
    return "system" if client in _SYSTEM_CLIENTS else "tail"


def session_of(payload: Json) -> str | None:
    """The client's name of the conversation; None when it gives none.

    opencode's have the form of a token (`ses_…`), which would be redacted, and all of them alike.
    """
    name = payload.get("session_id") or payload.get("sessionId") or payload.get("conversation_id")
    return str(name).removeprefix("ses_") if name else None


def _about(payload: Json, client: str, namespaces: Sequence[str]) -> HookQuestion | None:
    prompt = prompt_of(payload)
    if not prompt or prompt.startswith("/"):  # a command of the client
        return None
    body = {"query": prompt[:MAX_QUERY_CHARS], **_place(client, namespaces)}
    return _question([body], payload, client, restarted=payload.get("restarted") is True)


def _about_project(payload: Json, client: str, namespaces: Sequence[str]) -> HookQuestion:
    """Knowledge, near to the question or not."""
    asked = {"query": _START_QUERY, "collections": ["knowledge"], "all": True}
    bodies = [asked | _place(client, namespaces) | each for each in _START]
    return _question(bodies, payload, client, restarted=payload.get("source") not in _KEPT_CONTEXT)


def _question(bodies: list[Json], payload: Json, client: str, *, restarted: bool) -> HookQuestion:
    """Nothing is shown twice in a conversation that has a name, so only the first body may restart it."""
    if session := session_of(payload):
        bodies = [body | {"conversation": session} for body in bodies]
        bodies[0] |= {"restarted": True} if restarted else {}
    return HookQuestion(tuple(bodies), trusted=position_of(client) == "system")


def _place(client: str, namespaces: Sequence[str]) -> Json:
    return {"namespaces": [*namespaces], "position": position_of(client)}
