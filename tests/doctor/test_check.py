from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from agentctx import __version__
from agentctx.doctor import check as check_module
from agentctx.doctor.catalog import CHECK_IDS
from agentctx.doctor.check import (
    Finding,
    Skip,
    check,
    failed,
    in_thread,
    passed,
    report,
    run_checks,
    skipped,
    warned,
)
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.wire import CheckResult, CheckStatus

ENTRY_TEXT = "the text of an entry"


@pytest.fixture(autouse=True)
def _no_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "CHECKS", {})


def always(check_id: str, finding: Finding, *, fix: Callable[[object], Awaitable[str]] | None = None) -> None:
    @check(object, check_id, fix=fix)
    async def run(_: object) -> Finding:
        return finding


def raising(check_id: str, error: Exception) -> None:
    @check(object, check_id)
    async def run(_: object) -> Finding:
        raise error


async def run_all(*, fix: bool = False) -> list[CheckResult]:
    return await run_checks(check_module.CHECKS, object(), fix=fix)


@dataclass
class Broken:
    """Something that is broken until it is fixed; `heals` are fixed with it."""

    broken: bool = True
    fixes: int = 0
    heals: list[Broken] = field(default_factory=list)

    def register(self, check_id: str, *, fixable: bool = True) -> None:
        async def fix(_: object) -> str:
            self.fixes += 1
            for thing in (self, *self.heals):
                thing.broken = False
            return "glued it"

        @check(object, check_id, fix=fix)
        async def run(_: object) -> Finding:
            return failed("broken", hint="fix it", fixable=fixable) if self.broken else passed("whole")


async def test_a_failing_check_does_not_stop_the_others() -> None:
    raising("queue.backlog", StorageFailed("no disk", hint="buy one"))
    raising("queue.buried", ValueError(ENTRY_TEXT))
    raising("queue.leases", PermissionError(13, "Permission denied", "/p"))
    always("database.wal", passed("fine"))
    ours, bug, denied, last = await run_all()
    assert (ours.status, ours.message, ours.hint) == ("fail", "no disk", "buy one")
    assert (bug.status, bug.message) == ("fail", "the check itself failed: ValueError")
    assert bug.detail.startswith("at test_check.py:")
    assert ENTRY_TEXT not in repr(bug)
    assert (denied.status, denied.message) == ("fail", "Permission denied: /p")
    assert (last.status, last.message, last.group) == ("pass", "fine", "database")


async def test_a_check_that_hangs_is_given_up() -> None:
    @check(object, "queue.backlog", timeout_s=0.001)
    async def hang(_: object) -> Finding:
        await asyncio.Event().wait()
        raise AssertionError

    always("queue.buried", passed("fine"))
    first, second = await run_all()
    assert (first.status, first.message) == ("fail", "not done within 0.001 s")
    assert second.status == "pass"


async def test_a_check_that_blocks_is_given_up_too() -> None:
    released = threading.Event()

    @check(object, "queue.backlog", timeout_s=0.001)
    def hang(_: object) -> Finding:
        released.wait()
        raise AssertionError

    (found,) = await run_all()
    released.set()
    assert found.message == "not done within 0.001 s"


async def test_a_database_too_large_to_read_in_time_is_not_a_failure() -> None:
    raising("queue.backlog", DeadlineExceeded("60 s"))
    (found,) = await run_all()
    assert (found.status, "not checked" in found.message) == ("warn", True)


async def test_a_timeout_inside_the_check_is_not_taken_for_its_own() -> None:
    raising("queue.backlog", TimeoutError())
    (found,) = await run_all()
    assert found.message == "the check itself failed: TimeoutError"


async def test_where_there_is_nothing_to_examine_it_is_skipped_with_the_reason() -> None:
    raising("queue.backlog", Skip("nothing is saved yet"))
    (found,) = await run_all()
    assert (found.status, found.message) == ("skip", "nothing is saved yet")


async def test_a_decision_takes_facts_that_are_read_in_a_thread_or_awaited() -> None:
    async def awaited(_: object) -> int:
        return 2

    @check(object, "queue.backlog", lambda _: threading.current_thread(), awaited, lambda _: awaited(None))
    def decide(thread: threading.Thread, one: int, other: int) -> Finding:
        return passed(f"{thread is threading.main_thread()} {one} {other}")

    (found,) = await run_all()
    assert found.message == "False 2 2"
    assert decide(threading.main_thread(), 1, 2).message == "True 1 2", "the function stays what it was"


async def test_nothing_is_repaired_unless_asked_for() -> None:
    thing = Broken()
    thing.register("queue.backlog")
    (found,) = await run_all()
    assert (found.status, found.fixable, found.fixed, thing.fixes) == ("fail", True, None, 0)


async def test_a_repair_is_reported_and_the_status_is_the_one_after_it() -> None:
    Broken().register("queue.backlog")
    (found,) = await run_all(fix=True)
    assert (found.status, found.message, found.fixed) == ("pass", "whole", "glued it")


async def test_only_fixable_failures_are_repaired() -> None:
    whole, not_fixable = Broken(broken=False), Broken()
    whole.register("queue.backlog")
    not_fixable.register("queue.buried", fixable=False)
    assert [found.status for found in await run_all(fix=True)] == ["pass", "fail"]
    assert (whole.fixes, not_fixable.fixes) == (0, 0)


async def test_a_repair_that_heals_an_earlier_finding_is_seen() -> None:
    first = Broken()
    first.register("queue.backlog", fixable=False)
    Broken(heals=[first]).register("queue.buried")
    results = await run_all(fix=True)
    assert [(found.status, found.fixed) for found in results] == [("pass", None), ("pass", "glued it")]


async def test_a_repair_that_fails_is_reported_and_the_next_is_tried() -> None:
    async def fix(_: object) -> str:
        raise StorageFailed("no space")

    always("queue.backlog", failed("broken", hint="h", detail="d", fixable=True), fix=fix)
    Broken().register("queue.buried")
    stuck, mended = await run_all(fix=True)
    assert (stuck.status, stuck.detail, stuck.fixed) == ("fail", "d; the repair failed: no space", None)
    assert mended.fixed == "glued it"


async def test_only_wanted_checks_of_the_context_run() -> None:
    for name in ("queue.backlog", "queue.buried"):
        always(name, passed("fine"))
    check(str, "queue.leases")(lambda _: passed("another context"))
    wanted = ("queue.leases", "queue.buried", "database.wal")
    assert [found.id for found in await run_checks(wanted, object())] == ["queue.buried"]


def result(check: str, status: CheckStatus = "pass") -> CheckResult:
    return CheckResult(id=check, group="any", status=status, message="m")


def test_results_of_both_sources_are_merged_in_order() -> None:
    last = CHECK_IDS[-1]
    reply = report(map(result, ["queue.backlog", "future.check", last, "sqlite.version"]))
    assert [check.id for check in reply.checks] == ["sqlite.version", "queue.backlog", last, "future.check"]
    assert (reply.ok, reply.version) == (True, __version__)


def test_it_is_counted_how_they_ended_and_a_failure_is_not_ok() -> None:
    statuses: tuple[CheckStatus, ...] = ("pass", "pass", "warn", "fail", "skip", "skip", "skip")
    reply = report(result("queue.backlog", status) for status in statuses)
    summary = reply.summary
    assert (summary.passed, summary.warned, summary.failed, summary.skipped) == (2, 1, 1, 3)
    assert not reply.ok
    assert report([result("queue.backlog", "warn")]).ok


async def test_blocking_work_runs_in_a_daemon_thread() -> None:
    thread = await in_thread(threading.current_thread)
    assert thread is not threading.main_thread()
    assert thread.daemon


async def test_its_error_is_raised_to_the_awaiter() -> None:
    def look() -> None:
        raise PermissionError(13, "Permission denied", "/secret")

    with pytest.raises(PermissionError, match="/secret"):
        await in_thread(look)


def test_warnings_and_failures_are_trouble() -> None:
    assert [finding.is_trouble for finding in (passed("a"), skipped("a"))] == [False, False]
    assert [finding.is_trouble for finding in (warned("a", hint="b"), failed("a", hint="b"))] == [True, True]
