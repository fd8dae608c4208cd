from __future__ import annotations

from agentctx import __version__
from agentctx.doctor.report import report
from agentctx.wire import CheckResult, CheckStatus


def result(check: str, status: CheckStatus = "pass") -> CheckResult:
    return CheckResult(id=check, group="any", status=status, message="m")


def test_results_of_two_places_come_in_one_order() -> None:
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
