"""Backups and restores of real databases."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agentctx.errors import InvalidInput, SchemaForeign, SchemaTooNew, StorageFailed
from agentctx.service.stores.base import EntryStore, SaveContext
from agentctx.storage.backups import Backup
from agentctx.storage.file.copy import file_digest
from agentctx.storage.file.driver import open_connection
from agentctx.storage.file.migrate import check_schema, load_migrations, migrate_database, schema_version
from agentctx.storage.offline import rescue_copies
from agentctx.storage.sqlite.backup.backup_file import read_backup
from agentctx.storage.sqlite.backup.restore import restore_database
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.trust import Source
from agentctx.times import wall_clock
from agentctx.wire.protocol import DEFAULT_NAMESPACE
from agentctx_testing.drafts import ALL
from tests.fixtures.releases import ENTRIES, VECTORS, VERSIONS, unpack
from tests.storage.file.row_digest import row_digest

NOW = 1_795_000_000_000
BAD_NAMES = {"relative": "other", "nul": "/tmp/a\0b", "long": "/tmp/" + "x" * 300}
CRASHES = """
import os, sys
from agentctx.storage.file.driver import open_connection
from agentctx.storage.sqlite import checksums
connection = open_connection(sys.argv[1])
(seq,) = connection.execute("SELECT seq FROM entries WHERE key = 'new'").fetchone()
connection.execute("BEGIN")
connection.execute("UPDATE entries SET key = 'in-the-wal' WHERE seq = ?", (seq,))
checksums.seal(connection, seq)
connection.execute("COMMIT")
os._exit(0)
"""
KEPT = "agentctx.db.before-restore-20261118T110640000Z"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[SqliteStorage, EntryStore]]:
    storage = await SqliteStorage.open(path, readers=1)
    try:
        yield storage, EntryStore(storage, None, clock=wall_clock)
    finally:
        await storage.close()


def save_keys(path: Path, *keys: str) -> None:
    async def save() -> None:
        async with opened(path) as (_, stores):
            for key in keys:
                values = {"key": key, "content": f"About {key}, {wall_clock()}."}
                await stores.save_fields("knowledge", values, SaveContext())

    asyncio.run(save())


def revoke_everything(path: Path) -> None:
    async def revoke() -> None:
        async with opened(path) as (storage, _):
            await storage.trust.revoke(Source(namespace=DEFAULT_NAMESPACE), principal=0, dry_run=False)
            assert (await storage.trust.settle(embed=False)).rows

    asyncio.run(revoke())


def keys_in(path: Path) -> set[str]:
    async def list_keys() -> set[str]:
        async with opened(path) as (_, stores):
            entries, _ = await stores.list_entries(ALL)
            return {str(entry.key) for entry in entries}

    return asyncio.run(list_keys())


def back_up(path: Path, target: Path) -> Backup:
    async def write() -> Backup:
        async with opened(path) as (storage, _):
            return await storage.file.back_up(target)

    return asyncio.run(write())


@pytest.fixture
def database(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "agentctx.db"


@pytest.fixture
def backup(database: Path, tmp_path: Path) -> Path:
    """A backup that has `old`, of a database that now has `old` and `new`."""
    save_keys(database, "old")
    back_up(database, tmp_path / "backup.db")
    save_keys(database, "new")
    return tmp_path / "backup.db"


class TestBackup:
    def test_reports_its_content(self, database: Path, tmp_path: Path) -> None:
        save_keys(database, "a", "b")
        save_keys(database, "a")
        made = back_up(database, tmp_path / "b.db")
        assert (made.entries, made.versions, made.schema) == (2, 3, len(load_migrations()))
        assert made.bytes == (tmp_path / "b.db").stat().st_size
        assert made.digest == file_digest(tmp_path / "b.db") == read_backup(tmp_path / "b.db").digest
        segments = ("chunk_fts_data", "chunk_fts_idx")  # a backup's words are in a single segment
        assert row_digest(tmp_path / "b.db", without=segments) == row_digest(database, without=segments)

    def test_describes_a_backup_of_a_former_release(self, tmp_path: Path) -> None:
        made = read_backup(unpack(tmp_path))
        assert (made.schema, made.entries, made.versions) == (1, ENTRIES, VERSIONS)
        assert made.vectors == VECTORS

    @pytest.mark.parametrize(
        "name", ["agentctx.db", "agentctx.db-wal", "agentctx.db-shm", "link.db", "hard.db"]
    )
    def test_never_overwrites_its_own_database(self, database: Path, name: str) -> None:
        save_keys(database, "a")
        (database.parent / "link.db").symlink_to(database)
        (database.parent / "hard.db").hardlink_to(database)
        with pytest.raises(InvalidInput, match="is the database itself"):
            back_up(database, database.parent / name)
        assert keys_in(database) == {"a"}

    @pytest.mark.parametrize("kind", ["text", "folder", "database of others", "relative", "nul", "long"])
    def test_never_overwrites_a_foreign_file(self, database: Path, tmp_path: Path, kind: str) -> None:
        target = tmp_path / "other"
        if kind == "text":
            target.write_text("mine")
        elif kind == "folder":
            target.mkdir()
        elif kind in BAD_NAMES:
            target = Path(BAD_NAMES[kind])
        else:
            with closing(open_connection(target)) as connection:
                connection.execute("CREATE TABLE mine (x)")
        with pytest.raises(InvalidInput):
            back_up(database, target)

    def test_overwrites_an_older_backup(self, database: Path, backup: Path) -> None:
        assert back_up(database, backup).entries == 2

    def test_never_overwrites_the_database_of_another_daemon(self, database: Path, tmp_path: Path) -> None:
        save_keys(tmp_path / "theirs.db", "theirs")
        with pytest.raises(InvalidInput, match="is not a backup"):
            back_up(database, tmp_path / "theirs.db")
        assert keys_in(tmp_path / "theirs.db") == {"theirs"}

    @pytest.mark.parametrize("leads_to", ["nowhere", "link"])
    def test_does_not_follow_a_dangling_link(self, database: Path, tmp_path: Path, leads_to: str) -> None:
        (tmp_path / "link").symlink_to(tmp_path / leads_to)
        with pytest.raises(InvalidInput, match="is not a backup"):
            back_up(database, tmp_path / "link")


class TestRestore:
    def test_keeps_a_wal_without_its_database_but_does_not_replay_it(
        self, database: Path, backup: Path, tmp_path: Path
    ) -> None:
        subprocess.run([sys.executable, "-c", CRASHES, str(database)], check=True)
        wal = database.with_name("agentctx.db-wal").read_bytes()
        database.rename(tmp_path / "moved.db")
        restored = restore_database(backup, database, now=NOW)
        assert restored.kept is None
        assert file_digest(database) == restored.backup.digest
        assert database.with_name(f"{KEPT}-wal").read_bytes() == wal
        assert keys_in(database) == {"old"}

    @pytest.mark.parametrize("place", range(0, 40, 8))
    def test_replaces_a_database_with_a_damaged_schema(
        self, database: Path, backup: Path, place: int
    ) -> None:
        octets = bytearray(database.read_bytes())
        octets[octets.find(b"CREATE TABLE entries") + place] ^= 0x80
        database.write_bytes(octets)
        restore_database(backup, database, now=NOW)
        assert keys_in(database) == {"old"}

    def test_two_restores_in_one_second_keep_both_databases(self, database: Path, backup: Path) -> None:
        first = restore_database(backup, database, now=NOW).kept
        second = restore_database(backup, database, now=NOW).kept
        assert first is not None
        assert second is not None
        assert (keys_in(Path(first)), keys_in(Path(second))) == ({"old", "new"}, {"old"})

    def test_restores_the_backup_and_keeps_the_old_database(self, database: Path, backup: Path) -> None:
        restored = restore_database(backup, database, now=NOW)
        kept = database.with_name(KEPT)
        assert restored.kept == str(kept)
        assert restored.backup.entries == 1
        assert sorted(path.name for path in database.parent.iterdir()) == ["agentctx.db", KEPT]
        assert keys_in(database) == {"old"}
        assert keys_in(kept) == {"old", "new"}
        assert file_digest(backup) == restored.backup.digest

    def test_keeps_the_content_of_the_wal(self, database: Path, backup: Path) -> None:
        subprocess.run([sys.executable, "-c", CRASHES, str(database)], check=True)
        assert database.with_name("agentctx.db-wal").stat().st_size
        restore_database(backup, database, now=NOW)
        assert keys_in(database.with_name(KEPT)) == {"old", "in-the-wal"}
        assert keys_in(database) == {"old"}

    def test_restores_a_backup_together_with_its_wal(self, database: Path, tmp_path: Path) -> None:
        """The backup is a copy of another data folder, made by hand."""
        save_keys(database, "new")
        subprocess.run([sys.executable, "-c", CRASHES, str(database)], check=True)
        target = tmp_path / "other" / "agentctx.db"
        target.parent.mkdir()
        restore_database(database, target, now=NOW)
        assert keys_in(target) == {"in-the-wal"}

    def test_a_daemons_copy_is_removed_once_it_is_in_place(self, database: Path, backup: Path) -> None:
        copy = backup.rename(f"{database}.rescued-20261118T110640000Z")
        restore_database(copy, database, now=NOW, dry_run=True)
        assert rescue_copies(database) == [copy]
        restore_database(copy, database, now=NOW)
        assert rescue_copies(database) == []

    def test_restores_into_an_empty_folder(self, database: Path, backup: Path, tmp_path: Path) -> None:
        (tmp_path / "fresh").mkdir()
        assert restore_database(backup, tmp_path / "fresh" / "agentctx.db", now=NOW).kept is None
        assert keys_in(tmp_path / "fresh" / "agentctx.db") == {"old"}

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
    def test_root_restores_for_a_daemon_of_another_user(self, database: Path, backup: Path) -> None:
        os.chown(database.parent, 12_345, 12_346)
        restore_database(backup, database, now=NOW)
        assert (database.stat().st_uid, database.stat().st_gid) == (12_345, 12_346)

    def test_reports_damaged_entries_of_the_backup(self, database: Path, backup: Path) -> None:
        assert restore_database(backup, database, now=NOW, dry_run=True).damaged == 0
        with closing(open_connection(backup)) as connection:
            connection.execute("UPDATE entries SET content = 'x'")
        assert restore_database(backup, database, now=NOW).damaged == 1

    def test_does_not_count_quarantined_entries_as_damaged(self, database: Path, tmp_path: Path) -> None:
        save_keys(database, "revoked")
        revoke_everything(database)
        revoked = tmp_path / "revoked.db"
        back_up(database, revoked)
        assert restore_database(revoked, database, now=NOW, dry_run=True).damaged == 0

    def test_replaces_a_damaged_database(self, database: Path, backup: Path) -> None:
        database.write_bytes(b"damaged" * 1_000)
        restore_database(backup, database, now=NOW)
        assert keys_in(database) == {"old"}
        assert database.with_name(KEPT).read_bytes() == b"damaged" * 1_000

    def test_a_dry_run_changes_nothing(self, database: Path, backup: Path) -> None:
        before = sorted(database.parent.iterdir())
        assert restore_database(backup, database, now=NOW, dry_run=True).backup.entries == 1
        assert sorted(database.parent.iterdir()) == before
        assert keys_in(database) == {"old", "new"}

    @pytest.mark.parametrize("kind", ["missing", "text", "damaged", "of others", "newer", "itself"])
    def test_an_unusable_backup_changes_nothing(self, database: Path, backup: Path, kind: str) -> None:
        expected: type[Exception] = StorageFailed
        if kind == "missing":
            backup.unlink()
        elif kind == "text":
            backup.write_text("no database" * 100)
        elif kind == "damaged":
            octets = bytearray(backup.read_bytes())
            octets[8_192:12_288] = bytes(range(256)) * 16
            backup.write_bytes(octets)
        elif kind == "of others":
            backup.unlink()
            with closing(open_connection(backup)) as connection:
                connection.execute("CREATE TABLE mine (x)")
        elif kind == "newer":
            expected = SchemaTooNew
            with closing(open_connection(backup)) as connection:
                connection.execute("INSERT INTO schema_migrations VALUES (99, 'future', 'x', 0)")
        else:
            expected, backup = InvalidInput, database
        with pytest.raises(expected):
            restore_database(backup, database, now=NOW)
        assert keys_in(database) == {"old", "new"}
        assert not list(database.parent.glob("*before-restore*"))

    def test_refuses_what_agentctx_did_not_make(self, database: Path, backup: Path) -> None:
        with closing(open_connection(backup)) as conn:
            conn.execute("CREATE TABLE hoard (t)")
            conn.execute(
                "CREATE TRIGGER h AFTER INSERT ON entries BEGIN INSERT INTO hoard VALUES (new.content); END"
            )
            conn.execute("ALTER TABLE flags ADD COLUMN more TEXT")
        before = database.read_bytes()
        with pytest.raises(SchemaForeign, match=r"table flags \(changed\), table hoard, trigger h"):
            restore_database(backup, database, now=NOW)
        assert database.read_bytes() == before

    def test_a_backup_of_a_former_release_is_upgraded_at_the_next_start(
        self, database: Path, tmp_path: Path
    ) -> None:
        assert restore_database(unpack(tmp_path), database, now=NOW).backup.schema == 1
        assert check_schema(database).is_former
        assert "deploy" in keys_in(database)
        assert not check_schema(database).is_former
        assert schema_version(database) == len(load_migrations())

    def test_is_refused_while_another_program_has_the_database_open(
        self, database: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agentctx.storage.file.driver._COMMON_PRAGMAS", ("busy_timeout=0",))
        with closing(open_connection(database)) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM entries").fetchone()
            with pytest.raises(StorageFailed, match="is in use"):
                restore_database(backup, database, now=NOW)
        assert keys_in(database) == {"old", "new"}

    def test_survives_a_kill_at_every_step(self, database: Path, backup: Path, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.storage.killed_restore", str(backup), str(database), str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        result = json.loads(done.stdout)
        assert result["kills"] > 15
        assert result["violations"] == []


def test_the_database_fixture_has_both_entries(database: Path, backup: Path) -> None:
    migrate_database(database)
    assert keys_in(database) == {"old", "new"}
