from __future__ import annotations

import pytest

from agentctx.doctor.bookkeeping import RECENT_MS, judge_bookkeeping
from agentctx.storage.bookkeeping import Bookkeeping, DamagedRows, RepairedRows

NOW = 1_795_000_000_000


def test_sound_rows_pass() -> None:
    assert judge_bookkeeping(Bookkeeping([], [], []), now=NOW).status == "pass"


def test_damaged_rows_fail_and_say_what_is_lost() -> None:
    damaged = [DamagedRows("jobs", 2, "the jobs are made again"), DamagedRows("scrub", 1, "it begins again")]
    finding = judge_bookkeeping(Bookkeeping(damaged, [], []), now=NOW)
    assert (finding.status, finding.message) == ("fail", "3 bookkeeping rows cannot be read")
    assert finding.detail == "jobs: the jobs are made again; scrub: it begins again"
    assert finding.fixable


@pytest.mark.parametrize(("age_ms", "status"), [(0, "warn"), (RECENT_MS - 1, "warn"), (RECENT_MS, "pass")])
def test_what_a_start_repaired_is_warned_of_for_a_week(age_ms: int, status: str) -> None:
    mended = [RepairedRows(NOW - age_ms, "spaces", 1)]
    finding = judge_bookkeeping(Bookkeeping([], mended, []), now=NOW)
    assert finding.status == status
    assert finding.detail == ("spaces: 1 row" if status == "warn" else "")


def test_a_secret_that_was_set_aside_is_warned_of_until_somebody_lets_go_of_it() -> None:
    finding = judge_bookkeeping(Bookkeeping([], [], ["damaged 3 secret"]), now=NOW)
    assert (finding.status, finding.fixable) == ("warn", True)
    assert "audit trail" in finding.hint
