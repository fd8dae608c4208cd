"""Runs checks one after another; a failing check does not stop the others."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from agentctx import __version__
from agentctx.doctor.catalog import group_of, position
from agentctx.doctor.check import CHECKS, Check, Finding, Skip, failed, skipped, warned
from agentctx.errors import AgentctxError, DeadlineExceeded
from agentctx.wire import CheckResult, DoctorReply, DoctorSummary

T = TypeVar("T")

FIX_S: Final = 600.0
"""Timeout of a repair: long enough not to interrupt the rebuild of a large keyword index."""


async def run_checks(wanted: Iterable[str], context: object, *, fix: bool = False) -> list[CheckResult]:
    """Run the wanted checks that look at such a context, in order, and return their results.

    A check that raises or hangs is a `fail`; one for which the database ran out of time is a `warn`.
    With `fix`, fixable findings are repaired and checked again. After any repair, all remaining trouble is
    checked once more, since one repair can resolve another finding.
    """
    checks = {each: CHECKS[each] for each in wanted if each in CHECKS}
    runs = [_CheckRun(each, of, context) for each, of in checks.items() if of.context is type(context)]
    for run in runs:
        await run.look()
        if fix:
            await run.repair()
    if any(run.fixed for run in runs):
        for run in runs:
            if run.finding.is_trouble:
                await run.look()
    return [result(run.id, run.finding, run.fixed, run.failure, run.seconds) for run in runs]


class _CheckRun:
    """A check with its latest finding, its repair or why that failed, and the seconds that all took."""

    def __init__(self, check_id: str, check: Check, context: object) -> None:
        self.id = check_id
        self._check = check
        self._context = context
        self.finding = skipped("not run")
        self.fixed: str | None = None
        self.failure = ""
        self.seconds = 0.0

    async def look(self) -> None:
        self.finding = await self._timed(self._check.run, self._check.timeout_s)

    async def repair(self) -> None:
        if not self.finding.fixable or self._check.fix is None:
            return
        done = await self._timed(self._check.fix, FIX_S)
        if isinstance(done, Finding):
            self.failure = f"the repair failed: {done.message}"
        else:
            self.fixed = done
            await self.look()

    async def _timed(self, call: Callable[[Any], Awaitable[T]], timeout_s: float) -> T | Finding:
        """Return what the call returns, or the finding that it failed."""
        began = time.perf_counter()
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                return await call(self._context)
        except Skip as reason:
            return skipped(str(reason))
        except Exception as error:  # noqa: BLE001 - any error of a check or repair is a finding
            return broken(error, timeout_s if deadline.expired() else None)
        finally:
            self.seconds += time.perf_counter() - began


def broken(error: Exception, timeout_s: float | None = None) -> Finding:
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
    frames = traceback.extract_tb(error.__traceback__)
    return failed(
        f"the check itself failed: {type(error).__name__}",
        detail=f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "",
        hint="This is a bug in agentctx; please report it with this line.",
    )


def result(
    check_id: str, finding: Finding, fixed: str | None = None, failure: str = "", seconds: float = 0.0
) -> CheckResult:
    return CheckResult(
        id=check_id,
        group=group_of(check_id),
        status=finding.status,
        message=finding.message,
        detail="; ".join(part for part in (finding.detail, failure) if part),
        hint=finding.hint,
        fixable=finding.fixable,
        fixed=fixed,
        duration_ms=round(seconds * 1_000, 1),
    )


def skip_all(checks: Iterable[str], reason: str) -> list[CheckResult]:
    return [result(check, skipped(reason)) for check in checks]


def report(results: Iterable[CheckResult]) -> DoctorReply:
    """Return the report: all results in the order of the catalog, and the count of each status."""
    checks = sorted(results, key=lambda each: position(each.id))
    counts = Counter(each.status for each in checks)
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
