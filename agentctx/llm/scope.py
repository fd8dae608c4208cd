"""The caller's scope: session, agent and namespaces, from arguments and headers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypedDict

SESSION_HEADER = "X-Agentctx-Session"
AGENT_HEADER = "X-Agentctx-Agent"
NAMESPACE_HEADER = "X-Agentctx-Namespace"
"""One namespace, or several with commas between them."""
INJECT_HEADER = "X-Agentctx-Inject"
"""With `off`, the call goes out unchanged."""
CLAUDE_CODE_SESSION_HEADER = "X-Claude-Code-Session-Id"
CLAUDE_CODE_AGENT_HEADER = "X-Claude-Code-Agent-Id"

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a call. None means unknown."""

    session: str | None = None
    """A session meant for agentctx: results come from this session or from none."""
    agent: str | None = None
    """The calling agent. Distinguishes conversations; entries of other agents are still found."""
    namespaces: tuple[str, ...] = ()
    """Empty uses the source's own."""
    conversation: str | None = None
    """Identifies the conversation: the session, or one that a client names for its own purposes.

    A client's own session is not used as a filter, because entries of earlier sessions would never be found.
    """
    is_off: bool = False
    """Whether the call opts out of context."""


class Caller(TypedDict, total=False):
    """The arguments of `scope_of`."""

    headers: Mapping[str, str]
    session: str | None
    agent: str | None
    namespace: str | None


def namespaces_in(value: str) -> tuple[str, ...]:
    """Return the namespaces that a header's value names, each once."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))


def scope_of(
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    session: str | None = None,
    agent: str | None = None,
    namespace: str | None = None,
) -> Scope:
    """Return the scope of a call. Arguments take precedence over headers, whose names ignore case."""
    values = {name.lower(): value.strip() for name, value in headers.items()}

    def header(name: str) -> str | None:
        return values.get(name.lower()) or None

    session = session or header(SESSION_HEADER)
    return Scope(
        session=session,
        agent=agent or header(AGENT_HEADER) or header(CLAUDE_CODE_AGENT_HEADER),
        namespaces=namespaces_in(namespace or header(NAMESPACE_HEADER) or ""),
        conversation=session or header(CLAUDE_CODE_SESSION_HEADER),
        is_off=(header(INJECT_HEADER) or "").lower() == "off",
    )
