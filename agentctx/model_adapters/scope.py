"""Whose call it is: session, agent and namespace from arguments and headers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SESSION_HEADER = "X-Agentctx-Session"
AGENT_HEADER = "X-Agentctx-Agent"
NAMESPACE_HEADER = "X-Agentctx-Namespace"
INJECT_HEADER = "X-Agentctx-Inject"
"""`off` lets a call go out unchanged."""
CLAUDE_CODE_SESSION_HEADER = "X-Claude-Code-Session-Id"
CLAUDE_CODE_AGENT_HEADER = "X-Claude-Code-Agent-Id"

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose call it is. None: unknown."""

    session: str | None = None
    """Said for agentctx: what is found is of this session and of none."""
    agent: str | None = None
    """The agent that asks. Distinguishes conversations; it still finds what other agents saved."""
    namespace: str | None = None
    """None is the source's own."""
    conversation: str | None = None
    """Names the conversation: the session, or the one a client names for its own purposes.

    Such a client's session is not used as a filter: memories of its earlier sessions would never be found.
    """
    is_off: bool = False
    """Whether the call wants no context."""


def scope_of(
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    session: str | None = None,
    agent: str | None = None,
    namespace: str | None = None,
) -> Scope:
    """The scope of a call. Arguments go before headers; names of headers are taken in any case."""
    said = {name.lower(): value.strip() for name, value in headers.items()}

    def header(name: str) -> str | None:
        return said.get(name.lower()) or None

    session = session or header(SESSION_HEADER)
    return Scope(
        session=session,
        agent=agent or header(AGENT_HEADER) or header(CLAUDE_CODE_AGENT_HEADER),
        namespace=namespace or header(NAMESPACE_HEADER),
        conversation=session or header(CLAUDE_CODE_SESSION_HEADER),
        is_off=(header(INJECT_HEADER) or "").lower() == "off",
    )
