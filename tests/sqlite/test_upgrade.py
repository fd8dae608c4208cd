"""Databases of earlier schemas, upgraded to the current one.

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

from agentctx.errors import StorageFailed
from agentctx.sqlite.driver import open_connection
from agentctx.sqlite.migrate import (
    Migration,
    backup_before_migration,
    backups_before_migration,
    check_schema,
    load_migrations,
    migrate_database,
    schema_version,
    split_statements,
)
from agentctx.storage.records import SpaceState
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.amount import IS_WHOLE
from tests.fixtures.schemas import FILES, VECTORS, contents, file_for, lasting_contents, unpack
from tests.sqlite.row_digest import row_digest

MIGRATIONS = load_migrations()
NEWEST = len(MIGRATIONS)
EARLIER = range(1, NEWEST)
KILLED = [
    schema if schema in {min(FILES), max(FILES)} else pytest.param(schema, marks=pytest.mark.slow)
    for schema in FILES
]
"""The oldest runs every migration; the others repeat some of them."""
EVERY = 1 if os.environ.get("AGENTCTX_UPGRADE_KILLS") == "all" else 3 if IS_WHOLE else 9


@pytest.mark.parametrize("schema", FILES)
def test_a_fixture_has_its_schema(schema: int, tmp_path: Path) -> None:
    state = check_schema(unpack(schema, tmp_path))
    assert (max(state.applied), state.changed) == (schema, ())


@pytest.mark.parametrize("schema", EARLIER)
class TestUpgrade:
    def test_keeps_every_row(self, schema: int, tmp_path: Path) -> None:
        path = unpack(schema, tmp_path)
        before = lasting_contents(path)
        assert migrate_database(path) == list(range(schema + 1, NEWEST + 1))
        assert check_schema(path).changed == ()
        assert contents(path, before) == before

    def test_keeps_the_database_intact(self, schema: int, tmp_path: Path) -> None:
        path = unpack(schema, tmp_path)
        migrate_database(path)
        row_digest(path)

    async def test_preserves_the_invariant(self, schema: int, tmp_path: Path) -> None:
        storage = await SqliteStorage.open(unpack(schema, tmp_path), readers=1)
        try:
            census = await storage.upkeep.census()
            assert census.violations == 0
            assert census.vectors == VECTORS[file_for(schema)]
            assert await storage.upkeep.check_words() is None
        finally:
            await storage.close()

    def test_first_makes_a_backup_with_the_same_rows(self, schema: int, tmp_path: Path) -> None:
        path = unpack(schema, tmp_path)
        digest = row_digest(path)
        migrate_database(path)
        backup = backup_before_migration(path, schema)
        assert backup.name == f"agentctx.db.schema-{schema}.bak"
        assert backup.stat().st_mode & 0o777 == 0o600
        assert row_digest(backup) == digest
        assert schema_version(backup) == schema


def test_forgets_stay_in_the_audit_trail(tmp_path: Path) -> None:
    path = unpack(7, tmp_path)
    with closing(open_connection(path, readonly=True)) as conn:
        before = conn.execute("SELECT seq, at, action, principal, entry, collection FROM audit").fetchall()
    assert {row[2] for row in before} == {"forget", "expire"}
    migrate_database(path)
    with closing(open_connection(path, readonly=True)) as conn:
        rows = conn.execute("SELECT seq, at, kind, principal, subject, detail FROM audit").fetchall()
        hashes = conn.execute("SELECT DISTINCT previous_hash, hash, namespace FROM audit").fetchall()
    assert [(*row[:5], json.loads(row[5])["collection"]) for row in rows] == before
    assert hashes == [(None, None, None)]


async def test_a_space_in_another_vector_store_is_embedded_again(tmp_path: Path) -> None:
    path = unpack(12, tmp_path)
    with closing(open_connection(path)) as conn:
        (former,) = conn.execute("SELECT id FROM spaces WHERE state = 'active'").fetchone()
        conn.execute("UPDATE spaces SET vector_store = 'chroma'")
    storage = await SqliteStorage.open(path, readers=1)
    try:
        (retired,) = (space for space in await storage.spaces.all() if space.id == former)
        space = await storage.spaces.open(retired.fingerprint)
        census = await storage.upkeep.census()
        assert (retired.state, space.generation) == (SpaceState.RETIRED, retired.generation + 1)
        assert (await storage.spaces.pending(space.id), census.violations) == (census.chunks, 0)
    finally:
        await storage.close()


@pytest.mark.parametrize("schema", KILLED)
def test_survives_a_kill_at_every_statement(schema: int, tmp_path: Path) -> None:
    left = sum(len(list(split_statements(migration.sql))) for migration in MIGRATIONS[schema:])
    result = kill_upgrades(schema, tmp_path)
    assert result["kills"] > left // EVERY, "statements around the migrations count, too"
    assert result["violations"] == []


def test_a_broken_upgrade_is_noticed(tmp_path: Path) -> None:
    violations = kill_upgrades(1, tmp_path, "broken")["violations"]
    assert any("without a usable backup" in violation for violation in violations)
    assert any("could not be resumed" in violation for violation in violations)


def kill_upgrades(schema: int, folder: Path, *options: str) -> dict[str, Any]:
    arguments = [str(schema), str(folder), str(EVERY), *options]
    command = [sys.executable, "-m", "tests.sqlite.killed_upgrade", *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return dict(json.loads(done.stdout))


class TestBackup:
    def test_is_not_made_of_a_new_database(self, tmp_path: Path) -> None:
        migrate_database(tmp_path / "agentctx.db")
        assert backups_before_migration(tmp_path / "agentctx.db") == []

    def test_is_made_once_not_at_every_start(self, tmp_path: Path) -> None:
        path = unpack(1, tmp_path)
        migrate_database(path)
        (backup,) = backups_before_migration(path)
        made = backup.stat().st_mtime_ns
        migrate_database(path)
        assert backup.stat().st_mtime_ns == made

    def test_replaces_the_backup_of_an_earlier_upgrade(self, tmp_path: Path) -> None:
        path = unpack(1, tmp_path)
        migrations = load_migrations()
        migrate_database(path, migrations)
        migrate_database(path, [*migrations, Migration(NEWEST + 1, "more", "CREATE TABLE more (x);")])
        assert backups_before_migration(path) == [backup_before_migration(path, NEWEST)]

    def test_failure_stops_the_upgrade(self, tmp_path: Path) -> None:
        path = unpack(1, tmp_path)
        before = contents(path)
        backup_before_migration(path, 1).mkdir()
        with pytest.raises(StorageFailed, match="Cannot write"):
            migrate_database(path)
        assert schema_version(path) == 1
        assert contents(path, before) == before
