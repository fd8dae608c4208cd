from __future__ import annotations

import pytest

from agentctx.doctor.scrub import RECENT_MS, judge_audit, judge_bookkeeping
from agentctx.storage.audit import ChainFault, ChainVerdict
from agentctx.storage.upkeep import BookkeepingReport, DamagedRows, RepairedRows

WHOLE = ChainVerdict(rows=3)


def test_a_whole_chain_passes() -> None:
    finding = judge_audit(WHOLE)
    assert (finding.status, finding.message) == ("pass", "the audit trail is intact, 3 rows")


def test_a_changed_row_fails_and_is_named() -> None:
    faults = (ChainFault(2, "was changed or added"), ChainFault(None, "rows are missing at the end"))
    finding = judge_audit(ChainVerdict(rows=3, faults=2, listed=faults))
    assert finding.status == "fail"
    assert "2 faults" in finding.message
    assert finding.detail == "row 2 was changed or added; rows are missing at the end"
    assert not finding.fixable


NOW = 1_795_000_000_000


def test_sound_rows_pass() -> None:
    assert judge_bookkeeping(BookkeepingReport([], [], []), now=NOW).status == "pass"


def test_damaged_rows_fail_and_say_what_is_lost() -> None:
    damaged = [DamagedRows("jobs", 2, "the jobs are made again"), DamagedRows("scrub", 1, "it begins again")]
    finding = judge_bookkeeping(BookkeepingReport(damaged, [], []), now=NOW)
    assert (finding.status, finding.message) == ("fail", "3 bookkeeping rows cannot be read")
    assert finding.detail == "jobs: the jobs are made again; scrub: it begins again"
    assert finding.fixable


@pytest.mark.parametrize(("age_ms", "status"), [(0, "warn"), (RECENT_MS - 1, "warn"), (RECENT_MS, "pass")])
def test_a_repair_at_start_is_a_warning_for_a_week(age_ms: int, status: str) -> None:
    mended = [RepairedRows(NOW - age_ms, "spaces", 1)]
    finding = judge_bookkeeping(BookkeepingReport([], mended, []), now=NOW)
    assert finding.status == status
    assert finding.detail == ("spaces: 1 row" if status == "warn" else "")


def test_a_secret_set_aside_is_a_warning_until_removed() -> None:
    finding = judge_bookkeeping(BookkeepingReport([], [], ["damaged 3 secret"]), now=NOW)
    assert (finding.status, finding.fixable) == ("warn", True)
    assert "audit trail" in finding.hint
