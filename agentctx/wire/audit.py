"""The audit trail: its rows, and whether they are as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentctx.wire.names import STRICT


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One row. `principal` is the requester's kernel uid; null when the daemon did it automatically."""

    seq: int
    at: str
    kind: str
    principal: int | None
    namespace: str | None
    subject: str | None
    """What it was done to, most often the id of an entry."""
    detail: dict[str, Any]
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditPage:
    """Rows, newest first; `next` is the `before` of the next page."""

    events: list[AuditEvent]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditVerifyRequest:
    """`head`: the end of the chain as reported by an earlier reply; the chain must still go through it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    head: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditFault:
    """What is wrong at a row; `seq` null: with the chain as a whole."""

    seq: int | None
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditVerdict:
    """Whether each row is as it was written and none is missing; the first faults are listed."""

    sound: bool
    rows: int
    first: int | None
    last: int | None
    head: str | None
    """Where the chain ends: note it elsewhere, and have it compared later. Null: nothing is chained yet."""
    faults: int
    listed: list[AuditFault]
