"""The file is rewritten, so that it holds no byte of what was deleted."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import DeadlineExceeded, StorageFailed, StorageFull
from agentctx.storage.file.copy import partial_of
from agentctx.storage.file.driver import Connection, OperationalError, open_connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep import bookkeeping, rewrite, tidying
from agentctx.storage.sqlite.upkeep.rewrite import EVERY_MS, LONGEST_DELAY_S, LOOK_EVERY_S, QUIET_S, is_due
from agentctx_testing.conformance.storage.repair import embed_pending, prepared_space
from agentctx_testing.drafts import draft, keyless
from tests.storage.sqlite.upkeep.test_tidying import bytes_on_disk
from tests.storage.sqlite_saboteur import SqliteSaboteur

SETTINGS = "INSERT INTO chunk_fts (chunk_fts, rank) VALUES (?, ?)"
DATABASE = "agentctx.db"


@pytest.fixture
async def forgotten_words(storage: SqliteStorage) -> SqliteStorage:
    """A database in which a text whose words started index pages was deleted."""
    await _set(storage, "pgsz", 64)
    doomed = await storage.entries.save(keyless(_words("zanzibar")), embed=False)
    await storage.entries.save(keyless(_words("zanz") + " the zebra stays"), embed=False)
    await _set(storage, "usermerge", 2)
    await _set(storage, "merge", 1_000)
    await storage.entries.delete(doomed.id)
    assert await storage.upkeep.tidy()
    return storage


async def _set(storage: SqliteStorage, setting: str, value: int) -> None:
    await storage.db.writer.run(lambda conn: conn.execute(SETTINGS, (setting, value)))


def _words(prefix: str) -> str:
    return " ".join(f"{prefix}{number:03}" for number in range(100))


class TestRewrite:
    async def test_removes_what_sqlite_left_behind(self, tmp_path: Path, storage: SqliteStorage) -> None:
        """Rows of different lengths are moved between pages, and then deleted."""
        await prepared_space(storage)
        saved = [
            await storage.entries.save(
                draft(f"secret{number:03} " * (number % 40 + 1), key=f"k{number}"), embed=True
            )
            for number in range(120)
        ]
        await embed_pending(storage)
        for each in saved[::2]:
            await storage.entries.delete(each.id)
        assert await storage.upkeep.tidy()
        gone = [f"secret{number:03}".encode() for number in range(0, 120, 2)]
        before = await bytes_on_disk(tmp_path)
        assert any(word in before for word in gone), "nothing is left behind, so this test is void"
        assert await storage.upkeep.rewrite() == ()
        after = await bytes_on_disk(tmp_path)
        assert not [word for word in gone if word in after]
        assert after.count(b"secret001") > 0
        assert await storage.upkeep.check_integrity() == []
        assert await storage.upkeep.check_words() is None
        assert await storage.upkeep.check_vectors() == []
        assert (await storage.upkeep.census()).violations == 0
        for each in saved[1::2]:
            assert (await storage.entries.get(each.id)) is not None

    async def test_removes_words_that_the_index_keeps(
        self, tmp_path: Path, forgotten_words: SqliteStorage
    ) -> None:
        assert b"zanzibar" in await bytes_on_disk(tmp_path)
        await forgotten_words.upkeep.rewrite()
        left = await bytes_on_disk(tmp_path)
        assert b"zanzibar" not in left
        assert b"zanz099" in left
        assert await forgotten_words.upkeep.check_words() is None

    async def test_removes_words_from_an_index_of_one_segment(
        self, tmp_path: Path, forgotten_words: SqliteStorage
    ) -> None:
        """FTS5 leaves a single segment as it is."""
        await forgotten_words.upkeep.rewrite()
        (left,) = await forgotten_words.db.read(
            lambda conn: conn.execute("SELECT id FROM entries").fetchone()
        )
        await forgotten_words.entries.delete(left)
        await forgotten_words.upkeep.rewrite()
        assert b"zanz" not in await bytes_on_disk(tmp_path)
        assert await forgotten_words.upkeep.check_words() is None

    async def test_a_backup_has_no_remains_even_before_it(
        self, tmp_path: Path, forgotten_words: SqliteStorage
    ) -> None:
        await forgotten_words.file.back_up(tmp_path / "b.db")
        copied = await asyncio.to_thread((tmp_path / "b.db").read_bytes)
        assert b"the zebra stays" in copied
        assert b"zanzibar" not in copied

    @pytest.mark.parametrize(
        "damage", ["DROP TABLE chunk_fts_idx", "UPDATE chunk_fts_data SET block = zeroblob(length(block))"]
    )
    async def test_with_a_damaged_index_removes_the_text_and_the_words_once_it_is_rebuilt(
        self, tmp_path: Path, forgotten_words: SqliteStorage, damage: str
    ) -> None:
        SqliteSaboteur(tmp_path / DATABASE).run(damage)
        await forgotten_words.upkeep.rewrite()
        assert _words("zanzibar").encode() not in await bytes_on_disk(tmp_path)
        await forgotten_words.upkeep.rebuild_words()
        await forgotten_words.upkeep.rewrite()
        assert b"zanzibar" not in await bytes_on_disk(tmp_path)
        assert await forgotten_words.upkeep.check_words() is None

    async def test_says_why_text_is_left_in_the_wal(
        self, tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "PATIENCE_MS", 1)
        monkeypatch.setattr("agentctx.storage.sqlite.upkeep.upkeep_storage.REWRITE_WAIT_S", 0)
        saved = await storage.entries.save(keyless("the passphrase is xylophone"), embed=False)
        with closing(open_connection(tmp_path / DATABASE, readonly=True)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM entries").fetchone()
            await storage.entries.delete(saved.id)
            with pytest.raises(DeadlineExceeded, match="being read"):
                await storage.upkeep.rewrite()
        assert await storage.upkeep.rewrite() == ()
        assert b"xylophone" not in await bytes_on_disk(tmp_path)

    async def test_is_refused_without_room_and_the_doctor_knows_why(
        self, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = shutil.disk_usage("/")
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
            with pytest.raises(StorageFull, match="MiB of free disk space"):
                await storage.upkeep.rewrite()
        assert "free disk space" in (storage.upkeep.rewrite_problem or "")
        await storage.upkeep.rewrite()
        assert storage.upkeep.rewrite_problem is None

    async def test_saves_meanwhile_prevent_it_unless_it_insists(
        self, tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make, loop = rewrite._Copy.make, asyncio.get_running_loop()

        def save_after(copy: rewrite._Copy) -> None:
            make(copy)
            saving = storage.entries.save(keyless("saved meanwhile"), embed=False)
            asyncio.run_coroutine_threadsafe(saving, loop).result(10)

        with monkeypatch.context() as patched:
            patched.setattr(rewrite._Copy, "make", save_after)
            assert not await storage.upkeep.rewriter.rewrite(insists=False)
        saving = asyncio.create_task(storage.entries.save(keyless("saved, too"), embed=False))
        assert await storage.upkeep.rewriter.rewrite(insists=True)
        await saving
        found = await storage.db.read(lambda conn: conn.execute("SELECT content FROM entries").fetchall())
        assert {row[0] for row in found} == {"saved meanwhile", "saved, too"}
        assert not await asyncio.to_thread(partial_of(tmp_path / DATABASE).exists)

    async def test_a_cancelled_one_changes_nothing_and_leaves_no_file(
        self, tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make, loop, made = rewrite._Copy.make, asyncio.get_running_loop(), asyncio.Event()

        def signal(copy: rewrite._Copy) -> None:
            make(copy)
            loop.call_soon_threadsafe(made.set)

        monkeypatch.setattr(rewrite._Copy, "make", signal)
        await storage.entries.save(keyless("stays"), embed=False)
        rewriting = asyncio.create_task(storage.upkeep.rewriter.rewrite(insists=False))
        await made.wait()
        rewriting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rewriting
        assert not await asyncio.to_thread(partial_of(tmp_path / DATABASE).exists)
        assert await storage.upkeep.rewriter.rewrite(insists=False)
        assert (await storage.stats()).entries == {"knowledge": 1}

    @pytest.mark.parametrize("insists", [False, True])
    async def test_one_cancelled_while_pages_are_replaced_changes_nothing(
        self, tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch, insists: bool
    ) -> None:
        put_back, loop, begun = rewrite._Copy.put_back, asyncio.get_running_loop(), asyncio.Event()

        def begin(copy: rewrite._Copy, target: Connection, *, insists: bool) -> bool:
            loop.call_soon_threadsafe(begun.set)
            assert copy._pace._stop.wait(10)
            return put_back(copy, target, insists=insists)

        monkeypatch.setattr(rewrite, "PAGES_PER_STEP", 1)
        await storage.entries.save(keyless("stays"), embed=False)
        with monkeypatch.context() as patched:
            patched.setattr(rewrite._Copy, "put_back", begin)
            rewriting = asyncio.create_task(storage.upkeep.rewriter.rewrite(insists=insists))
            await begun.wait()
            rewriting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await rewriting
        assert not await asyncio.to_thread(partial_of(tmp_path / DATABASE).exists)
        assert await _remembered(storage) == []
        await storage.entries.save(keyless("saved later"), embed=False)
        assert await storage.upkeep.rewriter.rewrite(insists=insists)
        assert (await storage.stats()).entries == {"knowledge": 2}
        assert await storage.upkeep.check_integrity() == []

    async def test_a_file_that_cannot_be_read_is_reported(
        self, tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise OperationalError("disk I/O error")

        monkeypatch.setattr(rewrite, "copy_without_gaps", fail)
        with pytest.raises(StorageFailed, match="cannot rewrite the database"):
            await storage.upkeep.rewriter.rewrite(insists=False)
        with pytest.raises(StorageFailed, match="Cannot rewrite the database: No such file"):
            rewrite.require_space(tmp_path / "missing.db")

    async def test_a_copy_left_by_a_kill_is_removed_at_the_start(self, tmp_path: Path) -> None:
        left = partial_of(tmp_path / DATABASE)
        await asyncio.to_thread(left.write_bytes, b"a forgotten text")
        await (await SqliteStorage.open(tmp_path / DATABASE)).close()
        assert not await asyncio.to_thread(left.exists)


class TestWhenItIsDue:
    @pytest.fixture
    def hours(self) -> list[float]:
        return [0.0]

    @pytest.fixture
    async def quiet(
        self, storage: SqliteStorage, hours: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> SqliteStorage:
        monkeypatch.setattr(rewrite, "is_quiet", lambda _: True)
        monkeypatch.setattr(time, "monotonic", lambda: 1e6 + hours[0] * 3_600)
        return storage

    async def _rewrites(self, storage: SqliteStorage) -> bool:
        before = await _remembered(storage)
        assert not await storage.upkeep.rewriter.step()
        return bool(await _remembered(storage) != before)

    async def _forget(self, storage: SqliteStorage, **changes: Any) -> None:
        saved = await storage.entries.save(keyless("forgotten", **changes), embed=False)
        await storage.entries.delete(saved.id)

    async def test_after_a_forget_once_in_half_a_day(
        self, quiet: SqliteStorage, hours: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await quiet.entries.save(keyless("stays"), embed=False)
        assert not await self._rewrites(quiet)
        await self._forget(quiet)
        hours[0] += 1
        assert await self._rewrites(quiet)
        await self._forget(quiet)
        hours[0] += 1
        assert not await self._rewrites(quiet)
        now = quiet.db.clock() + EVERY_MS
        hours[0] += 1
        monkeypatch.setattr(quiet.db, "clock", lambda: now)
        assert await self._rewrites(quiet)
        now += EVERY_MS
        hours[0] += 1
        assert not await self._rewrites(quiet), "nothing was forgotten since"

    async def test_after_an_expiry(self, quiet: SqliteStorage, hours: list[float]) -> None:
        await quiet.entries.save(keyless("expires", expires=1), embed=False)
        assert not await self._rewrites(quiet)
        await quiet.entries.sweep()
        hours[0] += 1
        assert await self._rewrites(quiet)

    async def test_when_a_quarter_of_the_file_is_unused(self, quiet: SqliteStorage, tmp_path: Path) -> None:
        writer = quiet.db.writer
        await writer.run(lambda conn: conn.execute("CREATE TABLE bulk (x)"))
        await writer.run(lambda conn: conn.execute("INSERT INTO bulk VALUES (zeroblob(8000000))"))
        await writer.run(lambda conn: conn.execute("DROP TABLE bulk"))
        assert await quiet.upkeep.tidy()
        full = (await quiet.stats()).bytes
        assert await self._rewrites(quiet)
        assert await quiet.upkeep.tidy()
        assert (await quiet.stats()).bytes < full / 2
        assert not await quiet.db.read(is_due, now=quiet.db.clock() + 2 * EVERY_MS)

    async def test_waits_for_quiet_but_not_for_a_day(
        self, quiet: SqliteStorage, hours: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rewrite, "is_quiet", lambda _: False)
        await self._forget(quiet)
        assert not await self._rewrites(quiet)
        hours[0] += LONGEST_DELAY_S / 3_600
        assert not await self._rewrites(quiet)
        hours[0] += LOOK_EVERY_S / 3_600
        assert await self._rewrites(quiet)

    async def test_a_failed_one_is_tried_again_after_a_while(
        self, quiet: SqliteStorage, hours: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self._forget(quiet)
        with monkeypatch.context() as patched:
            patched.setattr(rewrite, "require_space", _fail)
            with pytest.raises(StorageFull):
                await quiet.upkeep.rewriter.step()
        assert not await self._rewrites(quiet)
        hours[0] += LOOK_EVERY_S / 3_600
        assert await self._rewrites(quiet)

    async def test_a_clock_set_back_does_not_prevent_it(self, quiet: SqliteStorage) -> None:
        await self._forget(quiet)
        await quiet.upkeep.rewrite()
        await self._forget(quiet)
        assert not await quiet.db.read(is_due, now=quiet.db.clock())
        assert await quiet.db.read(is_due, now=quiet.db.clock() - 10 * EVERY_MS)

    async def test_what_it_remembers_is_no_damage(self, quiet: SqliteStorage) -> None:
        await self._forget(quiet)
        await quiet.upkeep.rewrite()
        assert not await quiet.db.write(bookkeeping.repair, now=quiet.db.clock())

    def test_a_database_is_quiet_without_recent_writes(self, tmp_path: Path) -> None:
        assert rewrite.is_quiet(tmp_path / DATABASE)
        wal = tmp_path / f"{DATABASE}-wal"
        wal.touch()
        assert not rewrite.is_quiet(tmp_path / DATABASE)
        os.utime(wal, (0, wal.stat().st_mtime - QUIET_S - 1))
        assert rewrite.is_quiet(tmp_path / DATABASE)


def _fail(_: Path) -> None:
    raise StorageFull("no room")


async def _remembered(storage: SqliteStorage) -> Any:
    sql = "SELECT name, value FROM scrub WHERE name IN ('rewritten', 'deleted')"
    return await storage.db.read(lambda conn: conn.execute(sql).fetchall())
