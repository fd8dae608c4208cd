"""Translate a hook event into questions to the memory, and the answer into the client's JSON. No I/O.

A hook runs on every prompt, so this module does not import `typing`, nor anything that only the end of a turn
needs.
"""

from __future__ import annotations

from agentctx.agents.hooks.injected_text import without_injected
from agentctx.agents.hooks.tool_events import TOOL_EVENTS, actions_of
from agentctx.names import name_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    Json = dict[str, Any]

CLIENTS: Final = ("claude-code", "codex", "gemini", "qwen", "copilot", "cursor", "opencode", "pi", "cline")
PROMPT_EVENTS: Final = frozenset({"UserPromptSubmit", "BeforeAgent", "userPromptSubmitted", "chat.message"})
START_EVENTS: Final = frozenset({"SessionStart", "sessionStart"})
STOP_EVENTS: Final = frozenset({"Stop", "AfterAgent", "agentStop", "afterAgentResponse", "session.idle"})
COMPACTING_EVENTS: Final = frozenset({"PreCompact"})
SUMMARY_EVENTS: Final = frozenset({"PostCompact"})
END_EVENTS: Final = frozenset({"SessionEnd", "sessionEnd"})
SAVING_EVENTS: Final = STOP_EVENTS | COMPACTING_EVENTS | SUMMARY_EVENTS | END_EVENTS

MAX_QUERY_CHARS: Final = 4_000
"""The longest question that the daemon accepts."""
MOST_PER_ACTION: Final = 3
"""The most passages given before one action."""
MAX_BLOCK_CHARS: Final = 9_500
"""Stays below the 10,000 characters at which Claude Code and Codex truncate."""
BETWEEN_BLOCKS: Final = "\n\n"
_SYSTEM_CLIENTS: Final = frozenset({"claude-code", "codex", "cursor"})
"""Clients that put a hook's context into a system message."""
MESSAGE_CLIENTS: Final = frozenset({"claude-code", "codex", "gemini", "qwen", "opencode", "pi"})
"""Clients that show their user, not their model, the `systemMessage` of a hook."""
_START_QUERY: Final = "rules, conventions, preferences and decisions of this project"
_RULES: Final[Json] = {"query": "", "category": "rule", "limit": 50, "budget_tokens": 1_500}
_NEAREST: Final[Json] = {"query": _START_QUERY, "limit": 8, "budget_tokens": 500}
_DECIDED: Final[Json] = {"query": "", "decided": True, "limit": 20, "budget_tokens": 800}
"""At the start of a session: the rules, then what is nearest to the question. After a compaction, what the
session decided comes instead."""
_OF_SESSION: Final = ("knowledge", "observation", "learning")
_KEPT_CONTEXT: Final = frozenset({"resume", "fork"})
"""Start sources after which the conversation still contains the context injected before."""


class HookQuestion:
    """Questions whose blocks are shown together, in order. With `trusted`, external passages are excluded."""

    __slots__ = ("bodies", "trusted")

    def __init__(self, bodies: tuple[Json, ...], *, trusted: bool) -> None:
        self.bodies = bodies
        self.trusted = trusted


def question(event: str, client: str, payload: Json, *, namespaces: Sequence[str]) -> HookQuestion | None:
    """Return the question to the daemon for an event, or None."""
    if event in PROMPT_EVENTS:
        prompt = prompt_of(payload)
        if passed_over(prompt):
            return None
        body = {"query": prompt[:MAX_QUERY_CHARS], **_namespaces_and_position(client, namespaces)}
        return _question([body], payload, client, restarted=payload.get("restarted") is True)
    if event in TOOL_EVENTS:
        asked_each = _namespaces_and_position(client, namespaces) | {"limit": MOST_PER_ACTION}
        actions = [asked_each | action for action in actions_of(event, payload)]
        return _question(actions, payload, client, restarted=False) if actions else None
    if event in START_EVENTS:  # asks regardless of relevance
        common = {"all": True, "collections": ["knowledge"], **_namespaces_and_position(client, namespaces)}
        bodies = [common | _RULES, common | _NEAREST]
        if payload.get("source") == "compact" and session_of(payload):
            bodies[1] = common | _DECIDED | {"collections": _OF_SESSION, "agent": client}
        return _question(bodies, payload, client, restarted=payload.get("source") not in _KEPT_CONTEXT)
    return None


def block_of(reply: Json, *, trusted: bool, room: int = MAX_BLOCK_CHARS) -> str:
    """Return the block of a reply; empty if there is none, it exceeds `room`, or its trust is too low."""
    block = str(reply.get("block") or "")
    results = reply.get("results") or []
    if len(block) > room:
        return ""
    if trusted and any(hit.get("trust") == "external" or hit.get("flags") for hit in results):
        return ""
    return block


def without_room(count: int) -> str:
    """Return what tells the model how many entries the blocks of a start left out; empty if none."""
    if not count:
        return ""
    what = "1 more rule or decision" if count == 1 else f"{count} more rules and decisions"
    return f"No room here for {what} from memory: search it before you act."


def output(event: str, client: str, block: str, notice: str = "") -> Json | None:
    """Return the JSON for the client; None to print nothing. `notice` is for the user."""
    if notice and client in MESSAGE_CLIENTS:
        return {"systemMessage": notice}
    if event in SAVING_EVENTS:  # context given here would make the agent continue
        return {}
    if not block:
        return None
    match client:
        case "copilot" | "opencode" | "pi" | "cline":
            return {"additionalContext": block}
        case "cursor":
            return {"additional_context": block}
        case _:
            return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}}


def prompt_of(payload: Json) -> str:
    """Return the user's own words, without context added by hooks and programs."""
    prompt = payload.get("prompt")
    return without_injected(prompt) if isinstance(prompt, str) else ""


def passed_over(prompt: str) -> str:
    """Return why the hook of a prompt asks nothing, given the user's own words; empty if it asks."""
    if not prompt:
        return "all of the text is context that programs add"
    return "a text that begins with / is a command of the agent" if prompt.startswith("/") else ""


def position_of(client: str) -> str:
    """Return where the client puts a hook's context: in a system message, or in the user's turn."""
    return "system" if client in _SYSTEM_CLIENTS else "tail"


def session_of(payload: Json) -> str | None:
    """Return the client's id of the conversation, as the daemon accepts it, or None.

    opencode's ids look like tokens (`ses_…`) and would all be redacted to the same text.
    """
    name = payload.get("session_id") or payload.get("sessionId") or payload.get("conversation_id")
    return name_from(str(name).removeprefix("ses_")) if name else None


def _question(bodies: list[Json], payload: Json, client: str, *, restarted: bool) -> HookQuestion:
    """Tie the bodies to a conversation, if it has an id, so that it sees nothing twice. Only the first may
    restart it.
    """
    if session := session_of(payload):
        bodies = [body | {"conversation": session} for body in bodies]
        bodies[0] |= {"restarted": True} if restarted else {}
    return HookQuestion(tuple(bodies), trusted=position_of(client) == "system")


def _namespaces_and_position(client: str, namespaces: Sequence[str]) -> Json:
    return {"namespaces": [*namespaces], "position": position_of(client)}
