from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentctx.doctor.backup import judge_backups
from agentctx.doctor.check import run_checks
from agentctx.storage.backups import RECORD_NAME, BackupRecord, record_success
from tests.doctor.contexts import inner
from tests.storage.test_backups import BACKUP

HOUR = 3_600_000
FAILED = BackupRecord(last=BACKUP, failed=BACKUP.made + 1, problem="no space left")


@pytest.mark.parametrize(
    ("known", "interval_h", "is_there", "hours", "status", "told"),
    [
        (BackupRecord(), 0, False, 0, "skip", "off"),
        (BackupRecord(), 24, False, 0, "warn", "no backup has been made yet"),
        (BackupRecord(failed=1, problem="no space left"), 24, False, 0, "fail", "no space left"),
        (BackupRecord(last=BACKUP), 24, True, 5, "pass", "5 h old"),
        (BackupRecord(last=BACKUP), 0, True, 24 * 30, "pass", "30 d old"),
        (BackupRecord(last=BACKUP), 24, True, 47, "pass", "47 h old"),
        (BackupRecord(last=BACKUP), 24, True, 49, "warn", "expected every 24 h"),
        (BackupRecord(last=BACKUP), 24, False, 5, "warn", "its file is gone"),
        (FAILED, 24, True, 5, "warn", "a later one failed: no space left"),
        (BackupRecord(last=BACKUP), 24, True, -5, "pass", "0 s old"),
    ],
)
def test_tells_the_age_of_the_last_verified_one(
    known: BackupRecord, interval_h: float, is_there: bool, hours: int, status: str, told: str
) -> None:
    finding = judge_backups(known, interval_h, is_there=is_there, now=BACKUP.made + hours * HOUR)
    assert finding.status == status
    assert told in finding.message
    assert bool(finding.hint) == (status != "pass")


async def test_looks_at_record_and_file(tmp_path: Path) -> None:
    context = inner(path=tmp_path / "agentctx.db", clock=lambda: BACKUP.made)
    (missing,) = await run_checks(["backup.age"], context)
    assert missing.status == "skip"
    (tmp_path / "b.db").touch()
    record_success(tmp_path, replace(BACKUP, path=str(tmp_path / "b.db")))
    (finding,) = await run_checks(["backup.age"], context)
    assert finding.status == "pass"
    assert "2 entries" in finding.detail
    (tmp_path / RECORD_NAME).write_text("{")
    (damaged,) = await run_checks(["backup.age"], context)
    assert damaged.status == "warn"
