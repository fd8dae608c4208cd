from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.schema import Settings
from agentctx.doctor.backup import judge_backups, restore_hint
from agentctx.doctor.check import run_checks
from agentctx.storage.backups import AutomaticBackup, scheduled_name
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import keyless
from tests.doctor.contexts import inner

HOUR = 3_600_000
MADE = 1_795_000_000_000
KEPT = [AutomaticBackup(MADE - 24 * HOUR, Path("/b/0.db")), AutomaticBackup(MADE, Path("/b/1.db"))]
SHORT = "No backup is made: 1 MB are free"


@pytest.mark.parametrize(
    ("kept", "interval_h", "problem", "up_s", "hours", "status", "told"),
    [
        ([], 0, None, 9_999, 0, "skip", "off"),
        ([], 24, None, 0, 0, "skip", "minutes after its start"),
        ([], 24, None, 9_999, 0, "warn", "has made no backup"),
        ([], 24, SHORT, 0, 0, "warn", SHORT),
        (KEPT, 24, None, 0, 5, "pass", "2 backups, the newest 5 h old"),
        (KEPT, 0, None, 0, 24 * 30, "pass", "30 d old"),
        (KEPT, 24, None, 0, 47, "pass", "47 h old"),
        (KEPT, 24, None, 0, 49, "warn", "expected every 24 h"),
        (KEPT, 24, SHORT, 0, 5, "warn", SHORT),
        (KEPT, 24, None, 0, -5, "pass", "0.0 s old"),
    ],
)
def test_tells_the_age_of_the_newest(
    kept: list[AutomaticBackup],
    interval_h: float,
    problem: str | None,
    up_s: float,
    hours: int,
    status: str,
    told: str,
) -> None:
    finding = judge_backups(kept, interval_h, problem=problem, up_s=up_s, now=MADE + hours * HOUR)
    assert finding.status == status
    assert told in finding.message
    assert bool(finding.hint) == (status == "warn" or told == "off")


async def test_looks_into_the_backup_folder(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"embedding": {"provider": "none"}, "backup": {"folder": tmp_path / "b"}}
    )
    context = inner(settings=settings, path=tmp_path / "agentctx.db", clock=lambda: MADE)
    (missing,) = await run_checks(["backup.age"], context)
    assert missing.status == "skip"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / scheduled_name(MADE)).touch()
    (finding,) = await run_checks(["backup.age"], context)
    assert (finding.status, finding.detail) == ("pass", str(tmp_path / "b" / scheduled_name(MADE)))


async def test_the_remedy_is_the_newest_backup_and_what_is_lost_since(tmp_path: Path) -> None:
    now = MADE
    context = inner(path=tmp_path / "agentctx.db", clock=lambda: now)
    assert "There is no automatic backup" in await restore_hint(context)
    storage = await SqliteStorage.open(context.path, clock=lambda: now)
    await storage.entries.save(keyless("before"), embed=False)
    newest = tmp_path / "backups" / scheduled_name(MADE + 1)
    newest.parent.mkdir()
    for path in (newest, newest.with_name(scheduled_name(MADE - HOUR))):
        path.touch()
    now += 3 * HOUR
    for number in range(3):
        await storage.entries.save(keyless(f"after {number}"), embed=False)
    await storage.close()
    told = await restore_hint(context)
    assert f"`agentctx restore {newest}`: it was verified and is 3 h old" in told
    assert "without the 3 entries saved since" in told
    context.path.write_bytes(b"no database")
    assert "saved since" not in await restore_hint(context)
