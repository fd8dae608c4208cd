from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.cli.migrate import MigrateReport, report_line
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from agentctx.storage.file import migrate as migrate_module
from agentctx.storage.file.driver import open_connection
from agentctx.storage.file.migrate import Migration, check_schema, load_migrations, migrate_database
from agentctx.storage.offline import DATABASE_NAME
from tests.fixtures.releases import contents, unpack

KNOWN = len(load_migrations())
FORMER = 1
"""The schema version of agentctx 0.1.0."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """An empty database without a schema version."""
    path = tmp_path / DATABASE_NAME
    with closing(open_connection(path)) as connection:
        connection.execute("VACUUM")
    return path


def migrate(path: Path, *args: str) -> int:
    return run(["migrate", "--data-dir", str(path.parent), *args])


def test_missing_migrations_are_applied_once(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = list(range(1, KNOWN + 1))
    expected = {"database": str(database), "known": KNOWN, "backup": None}

    assert migrate(database, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        **expected,
        "version": 0,
        "applied": [],
        "pending": versions,
    }
    assert migrate(database, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        **expected,
        "version": KNOWN,
        "applied": versions,
        "pending": [],
    }
    assert migrate(database) == 0
    assert capsys.readouterr().out == f"up to date  schema version {KNOWN} of {KNOWN}  {database}\n"


def test_the_backup_before_an_upgrade_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Migration(KNOWN + 1, "more", "CREATE TABLE more (x);")
    monkeypatch.setattr(migrate_module, "load_migrations", lambda: [*load_migrations(), later])
    database = unpack(tmp_path)
    assert migrate(database, "--dry-run") == 0
    missing = range(FORMER + 1, KNOWN + 2)
    listed = ", ".join(map(str, missing))
    assert capsys.readouterr().out.startswith(f"to apply  {listed}  schema version {FORMER} of {KNOWN + 1}")
    assert migrate(database, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["applied"] == list(missing)
    assert report["backup"] == f"{database}.schema-{FORMER}.bak"
    assert Path(report["backup"]).is_file()


def test_a_database_of_a_former_release_gets_the_schema_and_keeps_every_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = unpack(tmp_path)
    before = contents(database)
    assert migrate(database) == 0
    assert capsys.readouterr().out.startswith(f"applied  {FORMER + 1}, ")
    for options in ((), ("--dry-run",)):
        assert migrate(database, *options) == 0
        assert capsys.readouterr().out == f"up to date  schema version {KNOWN} of {KNOWN}  {database}\n"
    after = contents(database)
    for table, rows in before.items():
        kept = [row[: len(rows[0])] for row in after[table]]  # without the columns that are new
        assert sorted(kept, key=repr) == rows, table
    assert not check_schema(database).is_former


def test_a_running_daemon_is_named(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with acquire_lock(data_lock_path(database.parent)):
        assert migrate(database) == 1
        assert f"pid {os.getpid()}" in capsys.readouterr().err
        assert migrate(database, "--dry-run") == 0
    assert capsys.readouterr().out.startswith("to apply  1")


@pytest.mark.parametrize("args", [(), ("--dry-run",)])
def test_a_database_of_a_newer_program_is_left_alone(
    database: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    migrate_database(database)
    with closing(open_connection(database)) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', '', 0)")
    assert migrate(database, *args) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"schema version 999; this agentctx supports up to {KNOWN}" in captured.err
    assert "Install the newer agentctx" in captured.err


def test_a_wrong_folder_is_an_error_and_is_not_modified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate(tmp_path / "absent" / DATABASE_NAME) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "absent").exists()


def test_the_report_is_readable() -> None:
    done = MigrateReport("/d", version=3, known=3, applied=[2, 3], pending=[])
    assert report_line(done) == "applied  2, 3  schema version 3 of 3  /d"


def test_a_file_is_not_copied_to_a_file(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate(database, "--to", "copy.db") != 0
    assert "agentctx backup" in capsys.readouterr().err
