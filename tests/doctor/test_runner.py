from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentctx import __version__
from agentctx.doctor.check import Check, Finding, failed, passed, skipped
from agentctx.doctor.runner import chosen, report, run_checks
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.wire import CheckResult, CheckStatus

ENTRY_TEXT = "the text of an entry"


def always(finding: Finding) -> Callable[[], Awaitable[Finding]]:
    async def run() -> Finding:
        return finding

    return run


def raising(error: Exception) -> Callable[[], Awaitable[Finding]]:
    async def run() -> Finding:
        raise error

    return run


@dataclass
class Broken:
    """Something that is broken until it is fixed; `heals` are fixed with it."""

    broken: bool = True
    fixes: int = 0
    heals: list[Broken] = field(default_factory=list)

    def check(self, check_id: str, *, fixable: bool = True) -> Check:
        return Check(id=check_id, run=lambda: self._look(fixable), fix=self._fix)

    async def _look(self, fixable: bool) -> Finding:
        return failed("broken", hint="fix it", fixable=fixable) if self.broken else passed("whole")

    async def _fix(self) -> str:
        self.fixes += 1
        for thing in (self, *self.heals):
            thing.broken = False
        return "glued it"


async def test_a_failing_check_does_not_stop_the_others() -> None:
    checks = [
        Check(id="queue.backlog", run=raising(StorageFailed("no disk", hint="buy one"))),
        Check(id="queue.buried", run=raising(ValueError(ENTRY_TEXT))),
        Check(id="queue.leases", run=raising(PermissionError(13, "Permission denied", "/p"))),
        Check(id="database.wal", run=always(passed("fine"))),
    ]
    ours, bug, denied, last = await run_checks(checks)
    assert (ours.status, ours.message, ours.hint) == ("fail", "no disk", "buy one")
    assert (bug.status, bug.message) == ("fail", "the check itself failed: ValueError")
    assert bug.detail.startswith("at test_runner.py:")
    assert ENTRY_TEXT not in repr(bug)
    assert (denied.status, denied.message) == ("fail", "Permission denied: /p")
    assert (last.status, last.message, last.group) == ("pass", "fine", "database")


async def test_a_check_that_hangs_is_given_up() -> None:
    async def hang() -> Finding:
        await asyncio.Event().wait()
        raise AssertionError

    first, second = await run_checks(
        [
            Check(id="queue.backlog", run=hang, timeout_s=0.001),
            Check(id="queue.buried", run=always(passed("fine"))),
        ]
    )
    assert (first.status, first.message) == ("fail", "not done within 0.001 s")
    assert second.status == "pass"


async def test_a_database_too_large_to_read_in_time_is_not_a_failure() -> None:
    (result,) = await run_checks([Check(id="queue.backlog", run=raising(DeadlineExceeded("60 s")))])
    assert (result.status, "not checked" in result.message) == ("warn", True)


async def test_a_timeout_inside_the_check_is_not_taken_for_its_own() -> None:
    (result,) = await run_checks([Check(id="queue.backlog", run=raising(TimeoutError()))])
    assert result.message == "the check itself failed: TimeoutError"


async def test_nothing_is_repaired_unless_asked_for() -> None:
    thing = Broken()
    (result,) = await run_checks([thing.check("queue.backlog")])
    assert (result.status, result.fixable, result.fixed, thing.fixes) == ("fail", True, None, 0)


async def test_a_repair_is_reported_and_the_status_is_the_one_after_it() -> None:
    thing = Broken()
    (result,) = await run_checks([thing.check("queue.backlog")], fix=True)
    assert (result.status, result.message, result.fixed) == ("pass", "whole", "glued it")


async def test_only_fixable_failures_are_repaired() -> None:
    whole, not_fixable = Broken(broken=False), Broken()
    results = await run_checks(
        [whole.check("queue.backlog"), not_fixable.check("queue.buried", fixable=False)], fix=True
    )
    assert [result.status for result in results] == ["pass", "fail"]
    assert (whole.fixes, not_fixable.fixes) == (0, 0)


async def test_a_repair_that_heals_an_earlier_finding_is_seen() -> None:
    first = Broken()
    second = Broken(heals=[first])
    results = await run_checks(
        [first.check("queue.backlog", fixable=False), second.check("queue.buried")], fix=True
    )
    assert [(result.status, result.fixed) for result in results] == [("pass", None), ("pass", "glued it")]


async def test_a_repair_that_fails_is_reported_and_the_next_is_tried() -> None:
    async def fix() -> str:
        raise StorageFailed("no space")

    thing = Broken()
    stuck, mended = await run_checks(
        [
            Check(
                id="queue.backlog", run=always(failed("broken", hint="h", detail="d", fixable=True)), fix=fix
            ),
            thing.check("queue.buried"),
        ],
        fix=True,
    )
    assert (stuck.status, stuck.detail, stuck.fixed) == ("fail", "d; the repair failed: no space", None)
    assert mended.fixed == "glued it"


def test_checks_are_chosen_by_id() -> None:
    checks = [Check(id=name, run=always(skipped("a"))) for name in ("queue.backlog", "queue.buried")]
    assert chosen(checks, ["queue.buried", "database.wal"]) == [checks[1]]


def result(check: str, status: CheckStatus = "pass") -> CheckResult:
    return CheckResult(id=check, group="any", status=status, message="m")


def test_results_of_both_sources_are_merged_in_order() -> None:
    reply = report([result("queue.backlog"), result("future.check"), result("sqlite.version")])
    assert [check.id for check in reply.checks] == ["sqlite.version", "queue.backlog", "future.check"]
    assert (reply.ok, reply.version) == (True, __version__)


def test_it_is_counted_how_they_ended_and_a_failure_is_not_ok() -> None:
    statuses: tuple[CheckStatus, ...] = ("pass", "pass", "warn", "fail", "skip", "skip", "skip")
    reply = report(result("queue.backlog", status) for status in statuses)
    summary = reply.summary
    assert (summary.passed, summary.warned, summary.failed, summary.skipped) == (2, 1, 1, 3)
    assert not reply.ok
    assert report([result("queue.backlog", "warn")]).ok
