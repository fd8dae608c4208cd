"""Is the audit trail as it was written."""

from __future__ import annotations

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed
from agentctx.storage.audit import ChainFault, ChainVerdict
from agentctx.storage.base import Storage
from agentctx.wording import counted, listed

_SHOWN = 3


def audit_check(storage: Storage) -> Check:
    """Follows the whole chain. There is no repair: what was changed must stay visible."""

    async def run() -> Finding:
        return judge_audit(await storage.audit.verify())

    return Check(id="database.audit", run=run, timeout_s=SCAN_S)


def judge_audit(verdict: ChainVerdict) -> Finding:
    if verdict.is_sound:
        return passed(f"the audit trail is intact, {counted(verdict.rows, 'row')}")
    return failed(
        f"the audit trail was changed or is damaged: {counted(verdict.faults, 'fault')}",
        detail=listed(map(_said, verdict.listed), most=_SHOWN, separator="; "),
        hint="Find out who can write the database file, and keep the file; a backup has the original trail.",
    )


def _said(fault: ChainFault) -> str:
    return fault.problem if fault.seq is None else f"row {fault.seq} {fault.problem}"
