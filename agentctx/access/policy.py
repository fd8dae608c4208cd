"""Who may use what. Operations have a policy in `service/operations.py`, plain routes and mounts in `PATHS`.

A route without a policy stops the daemon from being built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from agentctx.access.grants import Right


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may use a route.

    `anyone`: also strangers. `member`: who has any right at all. `namespace`: who has this right in the
    namespace that is asked about, by name or by the id of what is in it. `daemon`: who is admin of
    everything.
    """

    scope: Literal["anyone", "member", "namespace", "daemon"]
    right: Right = Right.NONE

    def __str__(self) -> str:
        return f"{self.scope} {self.right.name.lower()}" if self.right else self.scope


ANYONE: Final = Policy("anyone")
MEMBER: Final = Policy("member")
READ: Final = Policy("namespace", Right.READ)
WRITE: Final = Policy("namespace", Right.WRITE)
DAEMON: Final = Policy("daemon", Right.ADMIN)

PATHS: Final[Mapping[str, Policy]] = {
    "/healthz": ANYONE,
    "/readyz": ANYONE,
    "/metrics": DAEMON,
    "/openapi.json": MEMBER,
    # Reads for the injection; what is captured is saved with the right to write.
    "/proxy": READ,
    # Each tool call is an operation with a policy of its own.
    "/mcp": MEMBER,
}
"""By the path of a plain route, or of what is mounted."""

PROBES: Final = frozenset(path for path, policy in PATHS.items() if policy == ANYONE)
"""Paths that strangers may ask."""
