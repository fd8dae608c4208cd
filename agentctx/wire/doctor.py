"""What `doctor` found."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.wire.names import CheckStatus

DOCTOR_SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The finding of one check. `id` is stable; `hint` says what to do when it is not a pass."""

    id: str
    group: str
    status: CheckStatus
    message: str
    detail: str = ""
    hint: str = ""
    fixable: bool = False
    """Whether `--fix` can do something about it."""
    fixed: str | None = None
    """What `--fix` has just done about it; the status is the one after that."""
    duration_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorSummary:
    """How many checks ended how."""

    passed: int
    warned: int
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorReply:
    """`ok`: nothing failed."""

    schema_version: int = DOCTOR_SCHEMA
    version: str
    ok: bool
    checks: list[CheckResult]
    summary: DoctorSummary
