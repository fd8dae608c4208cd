"""Access policies: those of operations are declared on their methods, those of plain routes and mounts here.

The daemon refuses to be built with a route that has no policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from agentctx.service.access.grants import Right


@dataclass(frozen=True, slots=True)
class Policy:
    """The condition for using a route.

    `anyone` includes strangers. `member` is anyone with some right. `namespace` is anyone with this right in
    the namespace of the request, given by name or by the id of an entry or receipt. `daemon` is admins of
    every namespace, `metrics` these and anyone with the right `metrics`.
    """

    scope: Literal["anyone", "member", "namespace", "metrics", "daemon"]
    right: Right = Right.NONE

    def __str__(self) -> str:
        return f"{self.scope} {self.right.name.lower()}" if self.right else self.scope


ANYONE: Final = Policy("anyone")
MEMBER: Final = Policy("member")
READ: Final = Policy("namespace", Right.READ)
WRITE: Final = Policy("namespace", Right.WRITE)
METRICS: Final = Policy("metrics")
DAEMON: Final = Policy("daemon", Right.ADMIN)

PATHS: Final[Mapping[str, Policy]] = {
    "/healthz": ANYONE,
    "/readyz": ANYONE,
    "/metrics": METRICS,
    "/openapi.json": MEMBER,
    # Injection reads; captured text is saved with the right to write.
    "/proxy": READ,
    # Each tool call is an operation with its own policy.
    "/mcp": MEMBER,
}
"""Policies by the path of a plain route or mount."""

PROBES: Final = frozenset(path for path, policy in PATHS.items() if policy == ANYONE)
"""Paths that strangers may request."""
