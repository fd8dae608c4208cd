"""Runs checks one after another; a failing check does not stop the others."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentctx import __version__
from agentctx.doctor.catalog import group_of, position
from agentctx.doctor.check import Check, Finding, failed, warned
from agentctx.errors import AgentctxError, DeadlineExceeded
from agentctx.wire import CheckResult, DoctorReply, DoctorSummary

FIX_S = 600.0
"""Timeout of a repair: long enough not to interrupt the rebuild of a large keyword index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckOutcome:
    """A finding, its repair or why that failed, and the seconds that both took."""

    finding: Finding
    fixed: str | None = None
    failure: str = ""
    seconds: float = 0.0


async def run_checks(checks: Sequence[Check], *, fix: bool = False) -> list[CheckResult]:
    """Run the checks in order and return their results.

    A check that raises or hangs is a `fail`; one for which the database ran out of time is a `warn`.
    With `fix`, fixable findings are repaired and checked again. After any repair, all remaining trouble is
    checked once more, since one repair can resolve another finding.
    """
    looked = [await _run_check(check, fix=fix) for check in checks]
    if any(one.fixed for one in looked):
        looked = [await _recheck(check, one) for check, one in zip(checks, looked, strict=True)]
    return [_result(check, one) for check, one in zip(checks, looked, strict=True)]


def chosen(checks: Sequence[Check], wanted: Collection[str]) -> list[Check]:
    """Return the checks that are wanted."""
    return [check for check in checks if check.id in wanted]


async def _run_check(check: Check, *, fix: bool) -> _CheckOutcome:
    began = time.perf_counter()
    looked = _CheckOutcome(finding=await _examine(check))
    if fix and looked.finding.fixable and check.fix is not None:
        looked = await _repair(check, looked.finding, check.fix)
    return replace(looked, seconds=time.perf_counter() - began)


async def _recheck(check: Check, looked: _CheckOutcome) -> _CheckOutcome:
    if not looked.finding.is_trouble:
        return looked
    again = await _run_check(check, fix=False)
    return replace(looked, finding=again.finding, seconds=looked.seconds + again.seconds)


async def _examine(check: Check) -> Finding:
    deadline = asyncio.timeout(check.timeout_s)
    try:
        async with deadline:
            found = check.run()
            return found if isinstance(found, Finding) else await found
    except Exception as error:  # noqa: BLE001 - any error of a check is a finding
        return _broken(error, check.timeout_s if deadline.expired() else None)


async def _repair(check: Check, finding: Finding, fix: Callable[[], Awaitable[str]]) -> _CheckOutcome:
    deadline = asyncio.timeout(FIX_S)
    try:
        async with deadline:
            done = await fix()
    except Exception as error:  # noqa: BLE001 - a failed repair is reported, and the others are tried
        reason = _broken(error, FIX_S if deadline.expired() else None)
        return _CheckOutcome(finding=finding, failure=f"the repair failed: {reason.message}")
    return _CheckOutcome(finding=await _examine(check), fixed=done)


def _broken(error: Exception, timeout_s: float | None) -> Finding:
    """Convert an exception to a finding. The text of a foreign one is left out: it could contain anything."""
    if timeout_s is not None:
        return failed(
            f"not done within {timeout_s:g} s",
            hint="Something is very slow or hangs; run this check alone with --only.",
        )
    if isinstance(error, DeadlineExceeded):
        return warned(
            "not checked: it would take longer than a minute",
            hint="The database is large or the disk is busy; try again when there is less load.",
        )
    if isinstance(error, AgentctxError):
        return failed(error.message, hint=error.hint)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return failed(f"{error.strerror}{where}", hint="Check the permissions, or run as the daemon's user.")
    return failed(
        f"the check itself failed: {type(error).__name__}",
        detail=_place(error),
        hint="This is a bug in agentctx; please report it with this line.",
    )


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _result(check: Check, looked: _CheckOutcome) -> CheckResult:
    finding = looked.finding
    return CheckResult(
        id=check.id,
        group=group_of(check.id),
        status=finding.status,
        message=finding.message,
        detail="; ".join(part for part in (finding.detail, looked.failure) if part),
        hint=finding.hint,
        fixable=finding.fixable,
        fixed=looked.fixed,
        duration_ms=round(looked.seconds * 1_000, 1),
    )


def report(results: Iterable[CheckResult]) -> DoctorReply:
    """Return the report: all results in the order of the catalog, and the count of each status."""
    checks = sorted(results, key=lambda result: position(result.id))
    counts = Counter(check.status for check in checks)
    return DoctorReply(
        version=__version__,
        ok=not counts["fail"],
        checks=checks,
        summary=DoctorSummary(
            passed=counts["pass"],
            warned=counts["warn"],
            failed=counts["fail"],
            skipped=counts["skip"],
        ),
    )
