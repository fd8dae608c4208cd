from __future__ import annotations

from pathlib import Path

from agentctx.doctor.check import run_checks
from agentctx.doctor.scrub import RECENT_MS, judge_audit
from agentctx.storage.audit import DAMAGE, ChainFault, ChainVerdict, Event
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.doctor.contexts import inner

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


async def test_what_starts_have_repaired_is_named_for_a_week(tmp_path: Path) -> None:
    now = NOW
    storage = await SqliteStorage.open(tmp_path / "agentctx.db", clock=lambda: now)
    context = inner(opened=storage, clock=lambda: now)
    try:
        (sound,) = await run_checks(["database.bookkeeping"], context)
        await storage.audit.add([Event(kind=DAMAGE, principal=None, detail={"table": "jobs", "rows": 2})])
        (found,) = await run_checks(["database.bookkeeping"], context)
        now += RECENT_MS
        (later,) = await run_checks(["database.bookkeeping"], context)
    finally:
        await storage.close()
    assert [each.status for each in (sound, found, later)] == ["pass", "warn", "pass"]
    assert '"table":"jobs"' in found.detail
