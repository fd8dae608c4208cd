from __future__ import annotations

import pytest

from agentctx.config.embedding import QueueSettings
from agentctx.doctor.check import Finding
from agentctx.doctor.queue import OLD_MS, judge_backlog, judge_buried, judge_leases
from agentctx.embedding.queue.retry import LONGEST_PAUSE_S
from agentctx.storage.records import BuriedRow, QueueDepth

NOW = 1_800_000_000_000


def backlog(pending: int, age_ms: int = 0, *, by_daemon: bool = True, reason: str | None = None) -> Finding:
    oldest = NOW - age_ms if pending else None
    return judge_backlog(QueueDepth(pending, 0, oldest), now=NOW, by_daemon=by_daemon, reason=reason)


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (backlog(0), "pass"),
        (backlog(0, reason="no answer"), "pass"),
        (backlog(5, 1_000), "pass"),
        (backlog(5, OLD_MS + 1), "warn"),
        (backlog(5, OLD_MS + 1, by_daemon=False), "pass"),
        (backlog(5, 1_000, reason="no answer"), "warn"),
    ],
)
def test_pending_jobs_are_reported(found: Finding, status: str) -> None:
    assert found.status == status


def test_the_reason_why_nothing_is_embedded_is_reported() -> None:
    assert backlog(5, reason="the key is wrong").detail == "the key is wrong"


def test_buried_jobs_are_reported_with_the_most_common_reasons() -> None:
    rows = [
        BuriedRow(n, "e", "knowledge", 1, reason)
        for n, reason in enumerate(["long"] * 3 + ["bad"] * 2 + ["x"])
    ]
    finding = judge_buried(120, rows)
    assert (finding.status, finding.fixable) == ("warn", True)
    assert finding.message.startswith("120 jobs failed permanently")
    assert finding.detail == "3 x long; 2 x bad"
    assert judge_buried(0, []).status == "pass"


def test_jobs_due_later_than_any_backoff_reveal_a_clock_set_back() -> None:
    settings = QueueSettings()
    furthest = NOW + round(1_000 * (LONGEST_PAUSE_S + settings.backoff_max_s))
    assert judge_leases(now=NOW, next_due=None, settings=settings).status == "pass"
    assert judge_leases(now=NOW, next_due=furthest, settings=settings).status == "pass"
    assert judge_leases(now=NOW, next_due=furthest + 1, settings=settings).status == "warn"
