"""What each route asks for. A route that stands here nowhere stops the daemon from being built.

A new route of `/v1` belongs into `OPERATIONS`, under the name of its handler; one outside of FastAPI (a
plain route or a mount) into `PATHS`, under its path.
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

OPERATIONS: Final[Mapping[str, Policy]] = {
    "save": WRITE,
    "list_entries": READ,
    "get": READ,
    "edit": WRITE,
    "forget": WRITE,
    "versions": READ,
    "outcome": WRITE,
    "search": READ,
    "context": READ,
    # Receipts of one's own; those of others are for admins of the namespace.
    "injections": MEMBER,
    "injection": READ,
    "explain": READ,
    "export": READ,
    "import_entries": WRITE,
    # What derives from a source may stand in every namespace.
    "revoke": DAEMON,
    "undo_revocation": DAEMON,
    "release": DAEMON,
    "status": DAEMON,
    "queue": DAEMON,
    "retry": DAEMON,
    "drain": DAEMON,
    "reembed_status": DAEMON,
    "reembed": DAEMON,
    "doctor": DAEMON,
    "doctor_fix": DAEMON,
    "backup": DAEMON,
    "audit": DAEMON,
    "verify_audit": DAEMON,
}
"""By the name of the route's handler, which is its operation id."""

PATHS: Final[Mapping[str, Policy]] = {
    "/healthz": ANYONE,
    "/readyz": ANYONE,
    "/metrics": DAEMON,
    "/openapi.json": MEMBER,
    # Reads for the injection; what is captured is saved with the right to write.
    "/proxy": READ,
}
"""By the path of a plain route, or of what is mounted."""

PROBES: Final = frozenset(path for path, policy in PATHS.items() if policy == ANYONE)
"""Paths that strangers may ask."""
