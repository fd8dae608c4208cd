from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.daemon.host.lock import acquire_lock, data_lock_path
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_postgresql.migrate_to import EngineReport, report_lines
from agentctx_postgresql_tests.server import running_server, why_unavailable
from agentctx_testing.drafts import draft, embed, keyless, save, serving_space
from tests.fixtures.releases import ENTRIES, VERSIONS, unpack


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


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_file_of_an_earlier_schema_is_left_untouched(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = unpack(tmp_path).read_bytes()
    assert migrate_in(tmp_path, "--to", "postgresql://x@/y?host=/nowhere", *option) == 1
    error = capsys.readouterr().err
    assert "The database has an earlier schema." in error
    assert "Run `agentctx migrate` without --to first." in error
    assert (tmp_path / DATABASE_NAME).read_bytes() == before


def test_a_file_of_0_1_0_is_copied_once_it_was_migrated(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(tmp_path)
    assert migrate_in(tmp_path) == 0
    assert migrate_in(tmp_path, "--to", url) == 0
    assert f"verified  live entries {ENTRIES}, versions {VERSIONS}," in capsys.readouterr().out


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


def test_a_password_in_the_target_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate_in(folder, "--to", "postgresql://u:secret@h/d") != 0
    captured = capsys.readouterr()
    assert "must not hold a password" in captured.err
    assert "secret" not in captured.err


def test_a_server_is_not_copied_to_a_server(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", "postgresql://x@/y?host=/nowhere")
    assert migrate_in(folder, "--to", "postgresql://x@/z?host=/nowhere") != 0
    assert "pg_dump" in capsys.readouterr().err


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
