from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.errors import AccessDenied, InvalidInput, StorageFailed
from agentctx.service.backup import LONGEST_SLEEP_S, RETRY_MS, last_exists, next_due, remove_superseded
from agentctx.service.base import Peer
from agentctx.storage.backups import BackupRecord, read_record, scheduled_name
from agentctx.storage.file.writer import Writer
from agentctx.storage.sqlite.backup.backup_file import read_backup
from agentctx.wire import BackupRequest
from tests.running_core import ME, running_core, save
from tests.storage.test_backups import BACKUP

HOUR = 3_600_000
START = 1_795_000_000_000


class TestNextDue:
    def test_is_now_without_a_backup(self) -> None:
        assert next_due(BackupRecord(), is_there=False, interval_ms=HOUR, now=7) == 7

    @pytest.mark.parametrize(
        ("is_there", "now", "due"),
        [
            (False, START, START),
            (True, START + 5, START + HOUR),
            (True, START - 5 * HOUR, START - 4 * HOUR),
        ],
    )
    def test_is_one_interval_after_the_last_backup(self, is_there: bool, now: int, due: int) -> None:
        known = BackupRecord(last=replace(BACKUP, made=START))
        assert next_due(known, is_there=is_there, interval_ms=HOUR, now=now) == due

    def test_is_soon_after_a_failed_backup(self) -> None:
        failed = BackupRecord(failed=START, problem="no space")
        assert next_due(failed, is_there=False, interval_ms=24 * HOUR, now=START + 1) == START + RETRY_MS
        assert next_due(failed, is_there=False, interval_ms=1_000, now=START + 1) == START + 1_000


class TestLastExists:
    def test_is_true_for_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "b.db").touch()
        assert last_exists(BackupRecord(last=replace(BACKUP, path=str(tmp_path / "b.db"))))

    @pytest.mark.parametrize("path", ["gone.db", ".", "b.db/x"])
    def test_is_false_for_anything_else(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "b.db").touch()
        assert not last_exists(BackupRecord(last=replace(BACKUP, path=str(tmp_path / path))))

    def test_is_false_for_an_unreadable_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_: Path) -> bool:
            raise PermissionError

        monkeypatch.setattr(Path, "is_file", refuse)
        assert not last_exists(BackupRecord(last=BACKUP))


class TestRemoveSuperseded:
    def test_a_backup_that_cannot_be_removed_stays_and_is_logged(self, tmp_path: Path) -> None:
        folders = [tmp_path / scheduled_name(START + hour * HOUR) for hour in range(3)]
        for folder in folders:
            folder.mkdir()
        newest = replace(BACKUP, path=str(folders[-1]))
        with capture_logs() as logs:
            assert remove_superseded(tmp_path, keep=1, verified=newest) == []
        assert [line["event"] for line in logs] == ["old_backups_not_removed"]

    def test_a_missing_folder_is_logged(self, tmp_path: Path) -> None:
        with capture_logs() as logs:
            assert remove_superseded(tmp_path / "gone", keep=1, verified=BACKUP) == []
        assert [line["event"] for line in logs] == ["old_backups_not_removed"]


class TestBackup:
    async def test_keeps_only_the_newest_in_the_backup_folder(self, tmp_path: Path) -> None:
        times = iter(range(START, START + HOUR))
        async with running_core(tmp_path / "d", None, clock=lambda: next(times), backup={"keep": 2}) as core:
            await save(core, key="a", content="one")
            made = [await core.backups.backup(BackupRequest(), ME) for _ in range(4)]
        assert [len(each.removed) for each in made] == [0, 0, 1, 1]
        assert sorted((tmp_path / "d/backups").iterdir()) == [Path(each.file) for each in made[2:]]
        assert read_backup(Path(made[-1].file)).entries == 1

    async def test_is_recorded(self, tmp_path: Path) -> None:
        async with running_core(tmp_path / "d", None) as core:
            reply = await core.backups.backup(BackupRequest(file=str(tmp_path / "b.db")), ME)
            shown = (await core.metrics.metrics()).decode()
        last = read_record(tmp_path / "d").last
        assert last is not None
        assert last.path == reply.file == str(tmp_path / "b.db")
        assert f"agentctx_backup_bytes {float(reply.bytes)}" in shown
        assert "agentctx_backup_failing 0.0" in shown

    async def test_a_server_is_backed_up_by_its_operator(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running_core(tmp_path / "d", None) as core:
            monkeypatch.setattr(core.storage, "file", None)
            with pytest.raises(StorageFailed, match="by its operator") as refused:
                await core.backups.backup(BackupRequest(), ME)
        assert "pg_dump" in refused.value.hint

    async def test_only_the_daemons_user_may_name_the_file(self, tmp_path: Path) -> None:
        other = Peer(pid=1, uid=ME.uid + 1, gid=1)
        async with running_core(tmp_path / "d", None) as core:
            with pytest.raises(AccessDenied):
                await core.backups.backup(BackupRequest(file=str(tmp_path / "b.db")), other)
            assert (await core.backups.backup(BackupRequest(), other)).entries == 0

    @pytest.mark.parametrize("wrong", ["relative", "missing"])
    async def test_a_mistyped_path_does_not_count_as_a_failed_backup(
        self, tmp_path: Path, wrong: str
    ) -> None:
        file = "relative" if wrong == "relative" else str(tmp_path / "missing" / "b.db")
        async with running_core(tmp_path / "d", None) as core:
            with pytest.raises((InvalidInput, StorageFailed)):
                await core.backups.backup(BackupRequest(file=file), ME)
            assert read_record(tmp_path / "d") == BackupRecord()
            assert "agentctx_backup_failing 0.0" in (await core.metrics.metrics()).decode()
            (check,) = (await core.examiner.doctor(ME, only=["backup.age"])).checks
            assert check.status == "skip"

    async def test_an_unwritable_backup_folder_counts_as_a_failed_backup(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no folder")
        backup = {"folder": str(tmp_path / "file" / "backups")}
        async with running_core(tmp_path / "d", None, backup=backup) as core:
            with pytest.raises(StorageFailed):
                await core.backups.backup(BackupRequest(), ME)
            record = read_record(tmp_path / "d")
            assert record.failed
            assert "Cannot" in record.problem
            assert "agentctx_backup_failing 1.0" in (await core.metrics.metrics()).decode()

    async def test_saves_continue_during_a_backup(self, tmp_path: Path) -> None:
        async with running_core(tmp_path / "d", None) as core:
            for n in range(50):
                await save(core, key=f"k{n}", content="x" * 10_000)
            backing_up = asyncio.create_task(core.backups.backup(BackupRequest(), ME))
            saved = 0
            while not backing_up.done():
                await save(core, key=f"more{saved}", content="y")
                saved += 1
            made = await backing_up
        assert saved > 0
        assert 50 <= made.entries <= 50 + saved

    async def test_cancelling_a_backup_leaves_no_file(self, tmp_path: Path) -> None:
        async with running_core(tmp_path / "d", None) as core:
            await save(core, key="a", content="one")
            backing_up = asyncio.create_task(
                core.backups.backup(BackupRequest(file=str(tmp_path / "b.db")), ME)
            )
            await asyncio.sleep(0)
            backing_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await backing_up
            assert not await asyncio.to_thread(lambda: list(tmp_path.glob("b.db*")))
            assert (await core.backups.backup(BackupRequest(), ME)).entries == 1

    async def test_cancelling_a_backup_after_the_copy_leaves_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = tmp_path / "b.db"
        async with running_core(tmp_path / "d", None) as core:
            await save(core, key="a", content="one")

            async def copy_then_cancel(*_: object, **__: object) -> None:
                (tmp_path / "b.db.partial").write_text("all of it")
                raise asyncio.CancelledError

            monkeypatch.setattr(Writer, "copy", copy_then_cancel)
            with pytest.raises(asyncio.CancelledError):
                await core.backups.backup(BackupRequest(file=str(target)), ME)
            assert not await asyncio.to_thread(lambda: list(tmp_path.glob("b.db*")))


class TestKeepBackingUp:
    async def test_is_off_by_default(self, tmp_path: Path) -> None:
        async with running_core(tmp_path / "d", None) as core:
            await core.backups.keep_backing_up()
        assert not (tmp_path / "d/backups").exists()

    async def test_makes_one_immediately_and_one_every_interval(self, tmp_path: Path) -> None:
        now = START

        async def sleep(seconds: float) -> None:
            nonlocal now
            assert seconds <= LONGEST_SLEEP_S
            now += round(seconds * 1_000)
            if now > START + 2.5 * HOUR:
                raise TimeoutError

        async with running_core(tmp_path / "d", None, clock=lambda: now, backup={"interval_h": 1}) as core:
            with pytest.raises(TimeoutError):
                await core.backups.keep_backing_up(sleep)
        assert len(list((tmp_path / "d/backups").iterdir())) == 3

    async def test_continues_after_a_failure(self, tmp_path: Path) -> None:
        now = START
        folder = tmp_path / "folder"
        folder.write_text("in the way")

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += round(seconds * 1_000)
            if now >= START + RETRY_MS - 1 and folder.is_file():
                folder.unlink()
            if now > START + HOUR / 2:
                raise TimeoutError

        async with running_core(
            tmp_path / "d", None, clock=lambda: now, backup={"interval_h": 1, "folder": folder}
        ) as core:
            with pytest.raises(TimeoutError):
                await core.backups.keep_backing_up(sleep)
        assert len(list(folder.iterdir())) == 1
        assert read_record(tmp_path / "d").failed is None
