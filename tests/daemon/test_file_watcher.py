"""The database's files under a running daemon, and what the next start does about them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.daemon.file_watcher import FileWatcher, expect_database
from agentctx.doctor.daemon import RECORD_NAME, StartRecord
from agentctx.doctor.database_file import moved_note
from agentctx.errors import DatabaseMissing, StorageFailed
from agentctx.server.app import create_app
from agentctx.storage.backups import Backup
from tests.running_core import ME, running_core, save, sqlite_of
from tests.server.running import running
from tests.service.access.peers import access_control
from tests.service.telemetry.scraped import scraped


class Stopped(Exception):
    """Ends a watch when the test has no more places."""


class MovingFiles:
    """Files that are moved again and again; each look finds the next place."""

    def __init__(self, *places: Path | None) -> None:
        self._places = list(places)
        self.moved_to: Path | None = None

    async def back_up(self, target: Path) -> Backup:
        raise NotImplementedError

    async def look(self) -> None:
        self.moved_to = self._places.pop(0)

    async def tick(self, _: float) -> None:
        if not self._places:
            raise Stopped


async def watch(data_dir: Path, *places: Path | None) -> None:
    storage = MovingFiles(*places)
    with pytest.raises(Stopped):
        await FileWatcher(storage, data_dir).watch(sleep=storage.tick)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "agentctx.db"


def write_start_record(folder: Path) -> None:
    record = StartRecord(
        state="stopped", version="1", pid=1, socket="s", served=True, started="2026-11-23T00:00:00.000Z"
    )
    (folder / RECORD_NAME).write_text(record.to_json())


def test_the_first_start_expects_no_database(database: Path) -> None:
    expect_database(database)


def test_a_missing_database_that_was_served_before_is_refused(database: Path) -> None:
    write_start_record(database.parent)
    with pytest.raises(DatabaseMissing) as missed:
        expect_database(database)
    assert str(database.parent / RECORD_NAME) in missed.value.hint
    database.touch()
    expect_database(database)


async def test_a_start_knows_where_the_database_was_moved(database: Path) -> None:
    elsewhere = Path("/elsewhere/agentctx.db")
    await watch(database.parent, None, elsewhere, elsewhere)
    shutil.rmtree(database.parent)
    with pytest.raises(DatabaseMissing, match=str(elsewhere.parent)):
        expect_database(database)


async def test_a_database_that_returned_is_no_longer_missing(database: Path) -> None:
    await watch(database.parent, Path("/elsewhere/agentctx.db"), None)
    assert not moved_note(database.parent).exists()
    await watch(database.parent, Path("/elsewhere/agentctx.db"))
    await asyncio.to_thread(database.touch)
    expect_database(database)
    assert not moved_note(database.parent).exists()


def test_the_error_names_a_rescued_copy(database: Path) -> None:
    copy = database.with_name("agentctx.db.rescued-20261123T060000000Z")
    copy.touch()
    with pytest.raises(DatabaseMissing) as missed:
        expect_database(database)
    assert str(copy) in missed.value.hint
    database.touch()
    with capture_logs() as logged:
        expect_database(database)
    assert [line["event"] for line in logged] == ["rescued_copy_remains"]


async def test_an_unwritable_note_is_logged(tmp_path: Path) -> None:
    with capture_logs() as logged:
        await watch(tmp_path / "missing" / "data", Path("/elsewhere/agentctx.db"))
    assert [line["event"] for line in logged] == ["move_not_noted"]


ENTRY = {"collection": "knowledge", "key": "new", "content": "green pear"}


def move_folder(folder: Path) -> Callable[[], Any]:
    elsewhere = folder.rename(folder.with_name("elsewhere"))
    return lambda: elsewhere.rename(folder)


async def test_a_moved_database_is_reported_everywhere_until_it_returns(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with running_core(folder, None) as core:
        saved = await save(core, key="k", content="red apple")
        watching = asyncio.create_task(FileWatcher(sqlite_of(core).file, core.data_dir).watch())
        move_back = move_folder(folder)
        with pytest.raises(StorageFailed, match="moved"):
            await save(core, key="new", content="green pear")
        async with running(
            asgi=create_app(core, core.guard(access_control()), Settings(), core.telemetry)
        ) as daemon:
            ready = await daemon.http.get("/readyz")
            refused = await daemon.http.post("/v1/entries", json=ENTRY)
            read = await daemon.http.get(f"/v1/entries/{saved.id}")
        assert ready.status_code == 503
        assert "elsewhere" in ready.json()["error"]["message"]
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_failed")
        assert "--data-dir" in refused.json()["error"]["hint"]
        assert read.status_code == 200
        assert scraped(await core.metrics.metrics())["agentctx_database_writable"] == 0
        only = ["running.writes", "database.schema"]
        found = {check.id: check.status for check in (await core.examiner.doctor(ME, only=only)).checks}
        assert found == {"running.writes": "fail", "database.schema": "skip"}
        move_back()
        async with asyncio.timeout(30):
            await sqlite_of(core).db.writer.sound()
        await save(core, key="new", content="green pear")
        assert core.status.not_ready() is None
        watching.cancel()
