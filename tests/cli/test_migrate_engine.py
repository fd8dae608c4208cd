from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.cli.migrate_engine import EngineReport, report_lines
from agentctx.host.lock import acquire_lock, data_lock_path
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.conformance import embed, save, serving_space
from tests.storage.drafts import draft, keyless
from tests.storage.postgresql.server import running_server, why_unavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with two entries, one of two versions."""
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


def migrate(folder: Path, *args: str) -> int:
    return run(["migrate", "--data-dir", str(folder), *args])


def test_there_and_back(
    folder: Path,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {"entries": 2, "versions": 3, "vectors": 2, "pending": 0, "receipts": 0, "damaged": []}
    assert migrate(folder, "--to", url, "--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned.items() >= (held | {"copied": None, "differences": None, "dry_run": True}).items()

    assert migrate(folder, "--to", url) == 0
    assert "verified  live entries 2, versions 3, vectors 2," in capsys.readouterr().out
    assert migrate(folder, "--to", url, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again.items() >= (held | {"copied": 0, "differences": 0}).items()

    monkeypatch.setenv("AGENTCTX_STORAGE__URL", url)
    back = tmp_path / "back" / "copy.db"
    assert migrate(folder, "--to", str(back), "--json") == 0
    assert json.loads(capsys.readouterr().out).items() >= (held | {"copied": 3, "differences": 0}).items()
    assert back.is_file()


def test_a_running_daemon_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with acquire_lock(data_lock_path(folder)):
        assert migrate(folder, "--to", "postgresql://x@/y?host=/nowhere") == 1
    assert "Stop it, migrate, and start it again." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "said"),
    [("copy.db", "agentctx backup"), ("postgresql://u:secret@h/d", "must not hold a password")],
)
def test_a_target_that_cannot_be_is_refused(
    folder: Path, to: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate(folder, "--to", to) != 0
    captured = capsys.readouterr()
    assert said in captured.err
    assert "secret" not in captured.err


def test_what_differs_is_named() -> None:
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
