"""The reply of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.wire.protocol import CheckStatus

DOCTOR_SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one check. `id` is stable; `hint` says what to do if the check did not pass."""

    id: str
    group: str
    status: CheckStatus
    message: str
    detail: str = ""
    hint: str = ""
    fixable: bool = False
    """Whether `--fix` can repair the problem."""
    fixed: str | None = None
    """What `--fix` has just repaired; `status` is the result after the repair."""
    duration_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorSummary:
    """The number of checks per status."""

    passed: int
    warned: int
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorReply:
    """`ok`: no check failed."""

    schema_version: int = DOCTOR_SCHEMA
    version: str
    ok: bool
    checks: list[CheckResult]
    summary: DoctorSummary
    made: str = ""
    """When the daemon examined itself; empty in the report of `agentctx doctor`, which has more checks."""
