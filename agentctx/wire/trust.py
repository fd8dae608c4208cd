"""Revoking a source, and letting entries out of quarantine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentctx.wire.names import STRICT, Origin, Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class RevokeRequest:
    """Which source: entries that meet all that is named, in every namespace unless one is named.

    What was made of them, directly or not, goes with them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    namespace: str | None = None
    agent: str | None = None
    session: str | None = None
    principal: int | None = None
    """The kernel's uid of who saved them."""
    origin: Origin | None = None
    trust: Trust | None = None
    source: str | None = None
    """The `source` of an entry: a file, or a folder with everything below it."""
    since: str | None = None
    """Saved or changed then or later: an RFC 3339 time or an age like `7d`."""
    until: str | None = None
    """The same; earlier than this."""
    dry_run: bool = False
    """Only count."""
    forget: bool = False
    """Erase them permanently, soon after; this cannot be undone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevokeReply:
    """From now on no answer holds these entries."""

    revocation: int | None
    """By this number it can be undone; null when nothing was done."""
    entries: int
    """Of the source."""
    derived: int
    """Made of those, directly or not."""
    held_before: int
    """How many of both were in quarantine already."""
    criteria: dict[str, Any] = field(default_factory=dict)
    forget: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseReply:
    """Answers may hold these entries again, each as soon as it is back in the indexes."""

    released: int
    still_quarantined: int = 0
    """Entries of a revocation that stay in quarantine: another one holds them back, or they were flagged."""
    revocations: list[int] = field(default_factory=list)
    """The others that hold back some of these."""
