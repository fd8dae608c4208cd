from __future__ import annotations

from agentctx.doctor.audit import judge_audit
from agentctx.storage.audit import ChainFault, ChainVerdict

WHOLE = ChainVerdict(rows=3, first=1, last=3, head="3:00", faults=0, listed=())


def test_a_whole_chain_passes() -> None:
    finding = judge_audit(WHOLE)
    assert (finding.status, finding.message) == ("pass", "the audit trail is intact, 3 rows")


def test_a_changed_row_fails_and_is_named() -> None:
    faults = (ChainFault(2, "was changed or added"), ChainFault(None, "rows are missing at the end"))
    finding = judge_audit(ChainVerdict(rows=3, first=1, last=3, head="3:00", faults=2, listed=faults))
    assert finding.status == "fail"
    assert "2 faults" in finding.message
    assert finding.detail == "row 2 was changed or added; rows are missing at the end"
    assert not finding.fixable
