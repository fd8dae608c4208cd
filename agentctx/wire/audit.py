"""The audit trail: its rows, and the verdict of verifying them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One row. `principal` is the requester's kernel uid; null for an automatic action of the daemon."""

    seq: int
    at: str
    kind: str
    principal: int | None
    namespace: str | None
    subject: str | None
    """The object of the event, usually the id of an entry."""
    detail: dict[str, Any]
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditPage:
    """Rows, newest first; `next` is the `before` of the next page."""

    events: list[AuditEvent]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditFault:
    """A problem with a row, or with the whole chain if `seq` is null."""

    seq: int | None
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditVerdict:
    """Whether all rows are present and unchanged; the first faults are listed."""

    sound: bool
    rows: int
    faults: int
    listed: list[AuditFault]
