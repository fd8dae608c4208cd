"""Revoking a source, and letting entries out of quarantine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentctx.wire.protocol import Origin, Trust, request_body


@request_body
class RevokeRequest:
    """The source to revoke: entries that match all given criteria, in every namespace unless one is given.

    Entries derived from them, directly or not, are revoked too.
    """

    namespace: str | None = None
    agent: str | None = None
    session: str | None = None
    principal: int | None = None
    """The kernel's uid of the process that saved the entries."""
    origin: Origin | None = None
    trust: Trust | None = None
    source: str | None = None
    """The `source` of an entry: a file, or a folder with everything below it."""
    since: str | None = None
    """Saved or changed at this time or later: an RFC 3339 time or an age like `7d`."""
    until: str | None = None
    """The same, exclusive."""
    dry_run: bool = False
    """Only count the entries."""
    forget: bool = False
    """Erase the entries permanently, soon afterwards; this cannot be undone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevokeReply:
    """Confirms that these entries are excluded from answers."""

    revocation: int | None
    """The number with which to undo the revocation; null if nothing was done."""
    entries: int
    """Entries of the source."""
    derived: int
    """Entries derived from these, directly or not."""
    held_before: int
    """How many of both were already in quarantine."""
    criteria: dict[str, Any] = field(default_factory=dict)
    forget: bool = False
    dry_run: bool = False
    backups: int = 0
    """If the entries are forgotten: automatic backups that may hold them."""
    backups_until: str | None = None
    """As in a `ForgetReply`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseReply:
    """Confirms that answers may include these entries again, each once it is back in the indexes."""

    released: int
    still_quarantined: int = 0
    """Entries that stay in quarantine: another revocation covers them, or they were flagged."""
    revocations: list[int] = field(default_factory=list)
    """The other revocations that cover some of these entries."""
