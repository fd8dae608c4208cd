from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import BackupSettings, Settings
from agentctx.doctor.catalog import INNER_IDS
from agentctx.doctor.check import skipped
from agentctx.doctor.database import Opened
from agentctx.doctor.inner import (
    InnerContext,
    Running,
    backup_check,
    inner_checks,
    judge_backups,
    judge_captures,
    judge_loop,
    judge_memory,
    judge_writes,
    running_checks,
)
from agentctx.doctor.provider import Embedding
from agentctx.doctor.runner import run_checks
from agentctx.errors import StorageFailed
from agentctx.host.memory_limits import MemoryLimits
from agentctx.storage.backups import RECORD_NAME, BackupRecord, record_success
from agentctx.storage.base import Storage
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.telemetry.loop_lag import LoopLag
from agentctx.times import wall_clock
from tests.storage.test_backups import BACKUP


def inside(path: Path, storage: Storage | None) -> InnerContext:
    settings = Settings(embedding=EmbeddingSettings(provider="none"))
    return InnerContext(
        settings=settings,
        opened=Opened(path=path, storage=storage, opening=skipped("a"), reason="a"),
        embedding=Embedding(settings=settings.embedding, provider=None),
        clock=wall_clock,
    )


async def test_checks_match_the_catalog_in_order(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    assert tuple(check.id for check in inner_checks(inside(path, None))) == INNER_IDS
    storage = await SqliteStorage.open(path)
    try:
        assert tuple(check.id for check in inner_checks(inside(path, storage))) == INNER_IDS
    finally:
        await storage.close()


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
    check = backup_check(tmp_path, BackupSettings(), lambda: BACKUP.made)
    (missing,) = await run_checks([check])
    assert missing.status == "skip"
    (tmp_path / "b.db").touch()
    record_success(tmp_path, replace(BACKUP, path=str(tmp_path / "b.db")))
    (finding,) = await run_checks([check])
    assert finding.status == "pass"
    assert "2 entries" in finding.detail
    (tmp_path / RECORD_NAME).write_text("{")
    (damaged,) = await run_checks([check])
    assert damaged.status == "warn"


def lag(*readings: float) -> LoopLag:
    measured = LoopLag()
    for reading in readings:
        measured.record(reading)
    return measured


@pytest.mark.parametrize(
    ("readings", "status"),
    [
        ((), "pass"),
        ((0.001,) * 300, "pass"),
        ((0.001,) * 297 + (0.2,) * 3, "pass"),
        ((0.001,) * 296 + (0.2,) * 4, "warn"),
        ((0.001,) * 299 + (1.5,), "warn"),
        ((0.2, 0.2), "warn"),
    ],
)
def test_a_loop_that_is_late_again_and_again_or_for_a_second_is_reported(
    readings: tuple[float, ...], status: str
) -> None:
    assert judge_loop(lag(*readings)).status == status


def test_that_nothing_can_be_saved_is_reported_with_the_reason() -> None:
    finding = judge_writes(StorageFailed("The disk of the database still fails: EIO", hint="Look at it."))
    assert (finding.status, finding.hint) == ("fail", "Look at it.")
    assert "still fails: EIO" in finding.message
    assert judge_writes(None).status == "pass"


async def test_without_a_daemon_they_are_skipped() -> None:
    assert [each.status for each in await run_checks(running_checks(None))] == ["skip"] * 4
    found = await run_checks(running_checks(Running(loop_lag=lag(0.001))))
    assert [each.status for each in found if each.id != "running.memory"] == ["pass"] * 3


def test_refused_saves_of_hooks_are_counted() -> None:
    assert judge_captures(0).status == "pass"
    finding = judge_captures(3)
    assert (finding.status, finding.message[:8]) == ("warn", "3 saves ")


def test_limits_of_memory_are_reported() -> None:
    assert judge_memory(MemoryLimits()).status == "pass"
    little = judge_memory(MemoryLimits(memory=200_000_000))
    assert (little.status, little.message) == ("warn", "the memory is limited to 200 MB")
    assert judge_memory(MemoryLimits(address_space=1)).status == "warn"
