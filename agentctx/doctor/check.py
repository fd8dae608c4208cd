"""What a check finds, the decorator that makes a function a check, and how checks run."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from agentctx import __version__
from agentctx.doctor.catalog import CHECK_IDS, group_of
from agentctx.errors import AgentctxError, DeadlineExceeded
from agentctx.wire import CheckResult, CheckStatus, DoctorReply, DoctorSummary

T = TypeVar("T")

LOOK_S = 10.0
"""Timeout of a check that looks at files and settings."""
SCAN_S = 90.0
"""Timeout of a check that reads the whole database; longer than the storage's, so that its error shows."""
FIX_S: Final = 600.0
"""Timeout of a repair: long enough not to interrupt the rebuild of a large keyword index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. It never contains text of entries or secrets."""

    status: CheckStatus
    message: str
    detail: str = ""
    hint: str = ""
    """What to do next if it is not a pass."""
    fixable: bool = False

    @property
    def is_trouble(self) -> bool:
        return self.status in {"warn", "fail"}


def passed(message: str, *, detail: str = "") -> Finding:
    return Finding(status="pass", message=message, detail=detail)


def warned(message: str, *, hint: str, detail: str = "", fixable: bool = False) -> Finding:
    return Finding(status="warn", message=message, detail=detail, hint=hint, fixable=fixable)


def failed(message: str, *, hint: str, detail: str = "", fixable: bool = False) -> Finding:
    return Finding(status="fail", message=message, detail=detail, hint=hint, fixable=fixable)


def skipped(message: str, *, hint: str = "") -> Finding:
    return Finding(status="skip", message=message, hint=hint)


class Skip(Exception):
    """There is nothing to examine; the message says why. A check that raises it is skipped."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to examine. `run` and `fix` take an instance of `context`, which is what they look at."""

    context: type
    run: Callable[[Any], Awaitable[Finding]]
    fix: Callable[[Any], Awaitable[str]] | None
    timeout_s: float


CHECKS: Final[dict[str, Check]] = {}
"""The checks of all modules imported so far, by id."""

C = TypeVar("C")
Judge = TypeVar("Judge", bound=Callable[..., Finding | Awaitable[Finding]])


def check(
    context: type[C],
    check_id: str,
    *facts: Callable[[C], Any],
    fix: Callable[[C], str | Awaitable[str]] | None = None,
    timeout_s: float = LOOK_S,
) -> Callable[[Judge], Judge]:
    """Register the decorated function as the check with this id, which `catalog` lists.

    It takes the context, changes nothing and returns a finding. With `facts`, it takes what each of them
    returns for the context, and does no I/O. `fix` repairs what was called fixable, and returns what it did.
    All may raise: `run_checks` turns the error into a finding. Those that do I/O are coroutines, or block and
    get a thread.
    """

    def register(function: Judge) -> Judge:
        async def run(given: C) -> Finding:
            if facts:
                return cast(Finding, function(*[await _call(fact, given) for fact in facts]))
            return cast(Finding, await _call(function, given))

        CHECKS[check_id] = Check(context, run, partial(_call, fix) if fix else None, timeout_s)
        return function

    return register


async def _call(function: Callable[[C], Any], given: C) -> Any:
    answer = function(given) if inspect.iscoroutinefunction(function) else await in_thread(function, given)
    return await answer if inspect.isawaitable(answer) else answer


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread that is never joined.

    A hanging file system must not keep the program from exiting, as a thread of the loop's executor would.
    """
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # from now on it cannot be cancelled, so that `work` can set it

    def work() -> None:
        try:
            answer.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(answer)


async def run_checks(ids: Iterable[str], context: object, *, fix: bool = False) -> list[CheckResult]:
    """Run the checks whose context this is, in order, and return their results.

    A check that raises or hangs is a `fail`; one for which the database ran out of time is a `warn`.
    With `fix`, fixable findings are repaired and checked again. After any repair, all remaining trouble is
    checked once more, since one repair can resolve another finding.
    """
    checks = {name: CHECKS[name] for name in ids if name in CHECKS}
    runs = [_CheckRun(name, of, context) for name, of in checks.items() if of.context is type(context)]
    for run in runs:
        await run.look()
        if fix:
            await run.repair()
    if any(run.fixed for run in runs):
        for run in runs:
            if run.finding.is_trouble:
                await run.look()
    return [result(run.id, run.finding, run.fixed, run.failure, run.seconds) for run in runs]


@dataclass
class _CheckRun:
    """A check with its latest finding, its repair or why that failed, and the seconds that all took."""

    id: str
    check: Check
    context: object
    finding: Finding = field(init=False)
    fixed: str | None = None
    failure: str = ""
    seconds: float = 0.0

    async def look(self) -> None:
        self.finding = await self._timed(self.check.run, self.check.timeout_s)

    async def repair(self) -> None:
        if not self.finding.fixable or self.check.fix is None:
            return
        done = await self._timed(self.check.fix, FIX_S)
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
                return await call(self.context)
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
    check: str, finding: Finding, fixed: str | None = None, failure: str = "", seconds: float = 0.0
) -> CheckResult:
    fields = asdict(replace(finding, detail="; ".join(filter(None, (finding.detail, failure)))))
    spent_ms = round(seconds * 1_000, 1)
    return CheckResult(id=check, group=group_of(check), fixed=fixed, duration_ms=spent_ms, **fields)


def skip_all(checks: Iterable[str], reason: str) -> list[CheckResult]:
    return [result(check, skipped(reason)) for check in checks]


def report(results: Iterable[CheckResult]) -> DoctorReply:
    """Return the report: all results in the order of the catalog, unknown ones last, and their counts."""
    order = {check: number for number, check in enumerate(CHECK_IDS)}
    checks = sorted(results, key=lambda checked: order.get(checked.id, len(order)))
    n = Counter(checked.status for checked in checks)
    summary = DoctorSummary(passed=n["pass"], warned=n["warn"], failed=n["fail"], skipped=n["skip"])
    return DoctorReply(version=__version__, ok=not n["fail"], checks=checks, summary=summary)
