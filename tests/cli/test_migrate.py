from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.cli.migrate import EngineReport, MigrateReport, report_line, report_lines
from agentctx.host.lock import acquire_lock, data_lock_path
from agentctx.sqlite.driver import open_connection
from agentctx.sqlite.migrate import load_migrations, migrate_database
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.fixtures.schemas import unpack
from tests.storage.conformance import embed, save, serving_space
from tests.storage.drafts import draft, keyless
from tests.storage.postgresql.server import running_server, why_unavailable

KNOWN = len(load_migrations())


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


def test_the_backup_before_an_upgrade_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = unpack(1, tmp_path)
    assert migrate(database, "--json") == 0
    backup = json.loads(capsys.readouterr().out)["backup"]
    assert backup == f"{database}.schema-1.bak"
    assert Path(backup).is_file()


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with two entries, one of them with two versions."""
    made = tmp_path / "data"
    made.mkdir()

    async def fill() -> None:
        storage = await SqliteStorage.open(made / DATABASE_NAME)
        await serving_space(storage)
        for wanted in (keyless("One."), draft("Two."), draft("Three.")):
            await embed(storage, await save(storage, wanted))
        await storage.close()

    asyncio.run(fill())
    return made


@pytest.fixture
def url() -> Iterator[str]:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server() as server:
        server.sql("CREATE DATABASE moved")
        server.sql("CREATE EXTENSION vector", "moved")
        yield server.url("moved")


def migrate_in(folder: Path, *args: str) -> int:
    return run(["migrate", "--data-dir", str(folder), *args])


def test_migration_to_postgresql_and_back(
    folder: Path,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {"entries": 2, "versions": 3, "vectors": 2, "pending": 0, "receipts": 0, "damaged": []}
    assert migrate_in(folder, "--to", url, "--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned.items() >= (held | {"copied": None, "differences": None, "dry_run": True}).items()

    assert migrate_in(folder, "--to", url) == 0
    assert "verified  live entries 2, versions 3, vectors 2," in capsys.readouterr().out
    assert migrate_in(folder, "--to", url, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again.items() >= (held | {"copied": 0, "differences": 0}).items()

    monkeypatch.setenv("AGENTCTX_STORAGE__URL", url)
    back = tmp_path / "back" / "copy.db"
    assert migrate_in(folder, "--to", str(back), "--json") == 0
    assert json.loads(capsys.readouterr().out).items() >= (held | {"copied": 3, "differences": 0}).items()
    assert back.is_file()


def test_the_owner_migrates_a_server_without_a_daemon(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", url)

    def report(*args: str) -> tuple[int, list[int], list[int]]:
        assert migrate_in(folder, "--json", *args) == 0
        reply = json.loads(capsys.readouterr().out)
        return reply["version"], reply["applied"], reply["pending"]

    version, applied, pending = report("--dry-run")
    assert (version, applied) == (0, [])
    assert report() == (pending[-1], pending, [])
    assert report() == (pending[-1], [], [])


def test_a_running_daemon_leaves_the_copy_incomplete(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with acquire_lock(data_lock_path(folder)):
        assert migrate_in(folder, "--to", url) == 1
        out = capsys.readouterr().out
        assert "copied  versions 3" in out
        assert "not finished  a daemon uses the memory: stop it and run the same command again (about" in out
        assert "verified" not in out
        assert migrate_in(folder, "--to", url, "--json") == 1
        again = json.loads(capsys.readouterr().out)
        assert (again["copied"], again["differences"]) == (0, 0)
        assert again["seconds_left"] > 0
        assert migrate_in(folder, "--to", url, "--dry-run") == 0
    assert migrate_in(folder, "--to", url) == 0


def test_a_memory_is_copied_once_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with acquire_lock(folder / "migrate.lock"):
        assert migrate_in(folder, "--to", "postgresql://x@/y?host=/nowhere") == 1
    assert "Another `agentctx migrate` is copying" in capsys.readouterr().err


def test_a_file_that_a_daemon_uses_is_no_target(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", "postgresql://x@/y?host=/nowhere")
    with acquire_lock(data_lock_path(folder)):
        assert migrate_in(folder, "--to", str(folder)) == 1
    assert "copy into another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "said"),
    [("copy.db", "agentctx backup"), ("postgresql://u:secret@h/d", "must not hold a password")],
)
def test_an_invalid_target_is_refused(
    folder: Path, to: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate_in(folder, "--to", to) != 0
    captured = capsys.readouterr()
    assert said in captured.err
    assert "secret" not in captured.err


def test_differences_are_listed() -> None:
    report = EngineReport(
        source="a",
        target="b",
        entries=1,
        versions=1,
        vectors=0,
        pending=1,
        receipts=0,
        damaged=["id-2"],
        copied=0,
        differences=1,
        listed=["entry id-1, version 1: missing or damaged"],
        dry_run=False,
    )
    lines = list(report_lines(report))
    assert not report.is_whole
    assert lines[1].startswith("NOT the same  live entries 1,")
    assert "differs  entry id-1, version 1: missing or damaged" in lines
    assert "damaged and not copied  entry id-2" in lines
