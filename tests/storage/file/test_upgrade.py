"""A database of agentctx 0.1.0, opened by this program and upgraded by later migrations.

With `AGENTCTX_UPGRADE_KILLS=all`, the upgrade is killed at every statement, not at every third.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import SchemaTooOld, StorageFailed
from agentctx.storage.file.driver import open_connection
from agentctx.storage.file.migrate import (
    backup_before_migration,
    backups_before_migration,
    check_schema,
    migrate_database,
    schema_version,
    split_statements,
)
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.amount import IS_WHOLE
from tests.fixtures.releases import VECTORS, contents, unpack
from tests.storage.file.killed_upgrade import CORE, LATER, MIGRATIONS
from tests.storage.file.row_digest import row_digest

EVERY = 1 if os.environ.get("AGENTCTX_UPGRADE_KILLS") == "all" else 3 if IS_WHOLE else 9
OLDER = """
    DELETE FROM schema_migrations WHERE version = 20;
    DROP TABLE file_states;
    ALTER TABLE entries DROP COLUMN ttl;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return unpack(tmp_path)


def records(path: Path) -> list[tuple[Any, ...]]:
    with closing(open_connection(path, readonly=True)) as connection:
        return connection.execute("SELECT version, name, checksum FROM schema_migrations").fetchall()


class TestRecognition:
    def test_it_has_the_schema_of_the_first_migration(self, path: Path) -> None:
        state = check_schema(path)
        assert (state.applied, state.changed, state.foreign) == ((1,), (), ())
        assert (state.is_former, state.is_misrecorded) == (True, False)
        assert len(records(path)) == 20

    def test_only_its_record_is_replaced(self, path: Path) -> None:
        before = contents(path)
        done = migrate_database(path, CORE)
        (core,) = CORE
        assert (done.applied, done.version, done.backup) == ((), 1, None)
        assert records(path) == [(1, "core", core.checksum)]
        assert contents(path) == before
        assert not check_schema(path).is_former
        row_digest(path)

    def test_a_damaged_record_is_recognised_by_the_definitions(self, path: Path) -> None:
        with closing(open_connection(path)) as connection:
            connection.execute("DELETE FROM schema_migrations WHERE version < 9")
        assert migrate_database(path, CORE).before.is_misrecorded
        assert [row[0] for row in records(path)] == [1]

    async def test_the_invariant_holds(self, path: Path) -> None:
        storage = await SqliteStorage.open(path, readers=1)
        try:
            census = await storage.upkeep.census()
            assert census.violations == 0
            assert census.vectors == VECTORS
            assert await storage.upkeep.check_words() is None
        finally:
            await storage.close()

    def test_an_older_one_is_left_untouched_and_the_error_names_the_command(self, path: Path) -> None:
        with closing(open_connection(path)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            for statement in split_statements(OLDER):
                connection.execute(statement)
        before = path.read_bytes()
        assert check_schema(path).is_too_old
        with pytest.raises(SchemaTooOld, match="from before agentctx 0") as caught:
            migrate_database(path)
        assert "git+file://$PWD@v0.1.0 agentctx migrate" in caught.value.hint
        assert path.read_bytes() == before
        assert sorted(path.parent.iterdir()) == [path]


class TestLaterMigrations:
    def test_are_applied_and_keep_every_row(self, path: Path) -> None:
        before = contents(path)
        assert migrate_database(path, MIGRATIONS).applied == (2, 3)
        assert migrate_database(path, MIGRATIONS).applied == ()
        after = contents(path)
        assert {name: after[name] for name in before} == before
        assert len(after["titles"]) == len(before["entries"])
        row_digest(path)

    def test_a_backup_with_the_same_rows_is_made_first(self, path: Path) -> None:
        before = contents(path)
        backup = migrate_database(path, MIGRATIONS).backup
        assert backup == backup_before_migration(path, 1)
        assert backup.name == "agentctx.db.schema-1.bak"
        assert backup.stat().st_mode & 0o777 == 0o600
        assert contents(backup) == before
        assert schema_version(backup) == 1


def test_survives_a_kill_at_every_statement(tmp_path: Path) -> None:
    statements = sum(len(list(split_statements(migration.sql))) for migration in LATER)
    result = kill_upgrades(tmp_path)
    assert result["kills"] > statements // EVERY, "statements around the migrations count, too"
    assert result["violations"] == []


def test_a_broken_upgrade_is_noticed(tmp_path: Path) -> None:
    violations = kill_upgrades(tmp_path, "broken", every=1)["violations"]
    assert any("without a usable backup" in violation for violation in violations)
    assert any("could not be resumed" in violation for violation in violations)


def kill_upgrades(folder: Path, *options: str, every: int = EVERY) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.storage.file.killed_upgrade", str(folder), str(every), *options]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return dict(json.loads(done.stdout))


class TestBackup:
    def test_is_not_made_of_a_new_database(self, tmp_path: Path) -> None:
        migrate_database(tmp_path / "agentctx.db")
        assert backups_before_migration(tmp_path / "agentctx.db") == []

    def test_is_made_once_not_at_every_start(self, path: Path) -> None:
        migrate_database(path, MIGRATIONS)
        (backup,) = backups_before_migration(path)
        made = backup.stat().st_mtime_ns
        migrate_database(path, MIGRATIONS)
        assert backup.stat().st_mtime_ns == made

    def test_replaces_the_backup_of_an_earlier_upgrade(self, path: Path) -> None:
        migrate_database(path, MIGRATIONS[:2])
        migrate_database(path, MIGRATIONS)
        assert backups_before_migration(path) == [backup_before_migration(path, 2)]

    def test_failure_stops_the_upgrade(self, path: Path) -> None:
        before = contents(path)
        backup_before_migration(path, 1).mkdir()
        with pytest.raises(StorageFailed, match="Cannot write"):
            migrate_database(path, MIGRATIONS)
        assert schema_version(path) == 1
        assert contents(path) == before
