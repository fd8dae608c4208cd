from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.config.schema import BackupSettings
from agentctx.errors import AccessDenied, InvalidInput, StorageFailed
from agentctx.service import backup as module
from agentctx.service.backup import BEGINS_S, LONGEST_SLEEP_S, RETRY_S, keep_newest, next_due, replaced_at
from agentctx.service.base import Peer
from agentctx.storage.backups import AutomaticBackup, Backup, automatic_backups, scheduled_name
from agentctx.storage.file.writer import Writer
from agentctx.storage.sqlite.backup.backup_file import read_backup
from agentctx.wire import BackupRequest, RevokeRequest
from tests.live_files import contents
from tests.running_core import ME, running_core, save, sqlite_of

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_795_000_000_000


def kept(*times: int) -> list[AutomaticBackup]:
    return [AutomaticBackup(made, Path(scheduled_name(made))) for made in times]


class TestNextDue:
    def test_is_now_without_a_backup(self) -> None:
        assert next_due([], HOUR, now=7) == 7

    @pytest.mark.parametrize(
        ("now", "due"), [(START + 5, START + HOUR), (START - 5 * HOUR, START - 4 * HOUR)]
    )
    def test_is_one_interval_after_the_newest(self, now: int, due: int) -> None:
        assert next_due(kept(START - HOUR, START), HOUR, now=now) == due


class TestReplacedAt:
    @pytest.mark.parametrize(
        ("holding", "interval_h", "keep", "now", "until"),
        [
            ([], 24, 2, START, None),
            ([START], 0, 2, START, None),
            ([START], 24, 2, START + HOUR, START + 2 * DAY),
            ([START - DAY, START], 24, 2, START + HOUR, START + 2 * DAY),
            ([START], 24, 1, START + HOUR, START + DAY),
            ([START], 24, 2, START + 9 * DAY, START + 10 * DAY),
        ],
    )
    def test_is_when_enough_newer_ones_are_made(
        self, holding: list[int], interval_h: float, keep: int, now: int, until: int | None
    ) -> None:
        settings = BackupSettings(interval_h=interval_h, keep=keep)
        assert replaced_at(kept(*holding), settings, now) == until


class TestKeepNewest:
    def test_a_backup_that_cannot_be_removed_stays_and_is_logged(self, tmp_path: Path) -> None:
        folders = [tmp_path / scheduled_name(START + hour * HOUR) for hour in range(3)]
        for folder in folders:
            folder.mkdir()
        written = Backup(
            path=str(folders[-1]), made=START + 2 * HOUR + 1, bytes=1, schema=1, entries=0, versions=0,
            vectors=0, digest="",
        )  # fmt: skip
        with capture_logs() as logs:
            result = keep_newest(written, keep=1)
        assert result.removed == ()
        assert Path(result.backup.path).name == scheduled_name(START + 2 * HOUR + 1), "named after its end"
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

    async def test_a_named_file_is_no_automatic_backup(self, tmp_path: Path) -> None:
        async with running_core(tmp_path / "d", None) as core:
            reply = await core.backups.backup(BackupRequest(file=str(tmp_path / "b.db")), ME)
            assert reply.file == str(tmp_path / "b.db")
            assert await core.backups.kept() == []
            assert "agentctx_backup_timestamp_seconds 0.0" in (await core.metrics.metrics()).decode()
            made = await core.backups.backup(BackupRequest(), ME)
            (newest,) = await core.backups.kept()
            assert str(newest.path) == made.file
            shown = (await core.metrics.metrics()).decode()
        (line,) = (line for line in shown.splitlines() if line.startswith("agentctx_backup_timestamp"))
        assert float(line.split()[1]) == newest.made / 1_000

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

    @pytest.mark.parametrize("file", ["relative", "/missing/b.db"])
    async def test_a_mistyped_path_is_refused(self, tmp_path: Path, file: str) -> None:
        async with running_core(tmp_path / "d", None) as core:
            with pytest.raises((InvalidInput, StorageFailed)):
                await core.backups.backup(BackupRequest(file=file), ME)

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


class Slept:
    """A clock that a sleep moves, until `ends`."""

    def __init__(self, ends: float) -> None:
        self.now = START
        self.ends = START + ends
        self.first_s: float | None = None

    def clock(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if self.first_s is None:
            self.first_s = seconds
        else:
            assert seconds <= max(LONGEST_SLEEP_S, RETRY_S)
        self.now += round(seconds * 1_000)
        if self.now > self.ends:
            raise TimeoutError


class TestKeepBackingUp:
    async def test_by_default_makes_one_a_day_and_keeps_two(self, tmp_path: Path) -> None:
        slept = Slept(3.5 * DAY)
        async with running_core(tmp_path / "d", None, clock=slept.clock) as core:
            with pytest.raises(TimeoutError):
                await core.backups.keep_backing_up(slept.sleep)
        assert slept.first_s == BEGINS_S
        first = START + round(BEGINS_S * 1_000)
        assert [each.made for each in automatic_backups(tmp_path / "d/backups")] == [
            first + 2 * DAY,
            first + 3 * DAY,
        ]

    @pytest.mark.parametrize(
        "settings", [{"backup": {"interval_h": 0}}, {"storage": {"url": "postgresql://a@h/d"}}]
    )
    async def test_makes_none_if_off_or_on_a_server(
        self, tmp_path: Path, settings: dict[str, dict[str, object]]
    ) -> None:
        async with running_core(tmp_path / "d", None) as core:
            backups = module.Backups(
                core.storage, core.settings.value.model_validate(settings), tmp_path / "d"
            )
            await backups.keep_backing_up()
            assert await backups.kept() == []
            assert (await backups.holding(), await backups.other_copies()) == (
                {"backups": 0, "backups_until": None},
                [],
            )
        assert not (tmp_path / "d/backups").exists()

    async def test_makes_none_without_space_for_two(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept, real = Slept(HOUR), shutil.disk_usage

        def disk_usage(path: Path) -> Any:
            if path != tmp_path / "disk":
                return real(path)
            return SimpleNamespace(free=2 * (tmp_path / "d/agentctx.db").stat().st_size - 1)

        monkeypatch.setattr(shutil, "disk_usage", disk_usage)
        settings = {"folder": tmp_path / "disk/agentctx/backups"}
        (tmp_path / "disk").mkdir()
        async with running_core(tmp_path / "d", None, clock=slept.clock, backup=settings) as core:
            with pytest.raises(TimeoutError), capture_logs() as logs:
                await core.backups.keep_backing_up(slept.sleep)
            (check,) = (await core.examiner.doctor(ME, only=["backup.age"])).checks
        lines = [line for line in logs if line["event"] == "backup_failed"]
        assert len(lines) == (HOUR / 1_000 - BEGINS_S) // RETRY_S + 1
        assert "backup.folder" in lines[0]["hint"]
        assert (check.status, "No backup is made" in check.message) == ("warn", True)
        assert not (tmp_path / "disk/agentctx").exists()

    async def test_continues_after_a_failure_in_another_folder(self, tmp_path: Path) -> None:
        slept, folder = Slept(HOUR), tmp_path / "folder"
        folder.write_text("in the way")

        async def sleep(seconds: float) -> None:
            await slept.sleep(seconds)
            if slept.now >= START + RETRY_S * 1_000 and folder.is_file():
                folder.unlink()

        async with running_core(tmp_path / "d", None, clock=slept.clock, backup={"folder": folder}) as core:
            with pytest.raises(TimeoutError), capture_logs() as logs:
                await core.backups.keep_backing_up(sleep)
        assert [line["event"] for line in logs] == ["backup_failed", "backed_up"]
        assert len(list(folder.iterdir())) == 1
        assert not (tmp_path / "d/backups").exists()


class TestHolding:
    async def test_counts_backups_made_after_the_text_was_saved(self, tmp_path: Path) -> None:
        now = START
        async with running_core(tmp_path, None, clock=lambda: now) as core:
            old = await save(core, key="a", content="one")
            for _ in range(2):
                now += DAY
                await core.backups.backup(BackupRequest(), ME)
            now += HOUR
            new = await save(core, key="b", content="two")
            assert (await core.forgetting.forget(new.id, ME)).backups == 0
            reply = await core.forgetting.forget(old.id, ME)
            assert (reply.backups, reply.backups_until) == (2, "2026-11-22T11:06:40.000Z")
            assert (await core.forgetting.forget_all("default", ME)).backups == 2
            (tmp_path / "backups" / f"{scheduled_name(now)}.partial").touch()
            held = await core.status.status(ME)
            assert held.backups is not None
            assert held.backups.backups == 3, "one that is being written counts as well"

    async def test_an_edited_text_is_as_old_as_its_first_version(self, tmp_path: Path) -> None:
        now = START
        async with running_core(tmp_path, None, clock=lambda: now) as core:
            await save(core, key="a", content="one")
            now += HOUR
            await core.backups.backup(BackupRequest(), ME)
            now += HOUR
            edited = await save(core, key="a", content="two")
            assert (await core.forgetting.forget(edited.id, ME)).backups == 1

    async def test_a_revocation_says_it_only_if_it_forgets(self, tmp_path: Path) -> None:
        async with running_core(tmp_path, None) as core:
            await core.backups.backup(BackupRequest(), ME)
            await save(core, key="a", content="one", agent="bad")
            revoked = await core.revocations.revoke(RevokeRequest(agent="bad"), ME)
            forgotten = await core.revocations.revoke(RevokeRequest(agent="bad", forget=True), ME)
            assert (revoked.backups, forgotten.backups) == (0, 1)
            assert forgotten.backups_until is not None


class TestReplaceOlder:
    async def test_a_rewrite_leaves_one_backup_and_names_what_others_made(self, tmp_path: Path) -> None:
        canary = "zqleaver"
        async with running_core(tmp_path, None) as core:
            entry = await save(core, key="a", content=f"{canary} drinks tea")
            older = [(await core.backups.backup(BackupRequest(), ME)).file for _ in range(2)]
            named = str(tmp_path / "backups/mine.db")
            await core.backups.backup(BackupRequest(file=named), ME)
            others = [
                tmp_path / f"agentctx.db.{end}" for end in ("schema-1.bak", "before-restore-20261118T1Z")
            ]
            for path in others:
                path.write_bytes(b"a copy")
                os.utime(path, (1, 1))
            reply = await core.forgetting.forget(entry.id, ME)
            files = [each for each in reply.remains if each.startswith("/")]
            assert (reply.backups, files) == (2, [named]), "the others are older than the entry"
            rewritten = await core.forgetting.rewrite(ME)
            assert rewritten.backups_removed == sorted(older) or rewritten.backups_removed == older[::-1]
            assert rewritten.remains == sorted([named, *map(str, others)])
            (newest,) = await core.backups.kept()
            assert rewritten.backup == str(newest.path)
            assert (await core.forgetting.forget_all("default", ME)).backups == 1
        holding = [str(path) for path, content in contents(tmp_path) if canary.encode() in content]
        assert holding == [named]

    async def test_without_automatic_backups_none_is_made(self, tmp_path: Path) -> None:
        async with running_core(tmp_path, None, backup={"interval_h": 0}) as core:
            rewritten = await core.forgetting.rewrite(ME)
            assert (rewritten.backup, rewritten.backups_removed) == (None, [])
            await core.backups.backup(BackupRequest(), ME)
            assert len((await core.forgetting.rewrite(ME)).backups_removed) == 1

    async def test_the_older_ones_stay_if_the_new_one_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail(*_: object) -> None:
            raise StorageFailed("The disk has failed.")

        async with running_core(tmp_path, None) as core:
            made = await core.backups.backup(BackupRequest(), ME)
            monkeypatch.setattr(sqlite_of(core).file, "back_up", fail)
            with pytest.raises(StorageFailed):
                await core.forgetting.rewrite(ME)
            assert [str(each.path) for each in await core.backups.kept()] == [made.file]
