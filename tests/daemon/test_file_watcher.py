"""The database's files under a running daemon, and what the next start does about them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.daemon.file_watcher import note_served, watch_files
from agentctx.errors import StorageFailed
from agentctx.server.app import create_app
from tests.running_core import ME, running_core, save
from tests.server.running import running
from tests.service.access.peers import access_control
from tests.service.telemetry.scraped import scraped

pytestmark = pytest.mark.usefixtures("own_state_home")


def test_a_note_that_cannot_be_written_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with capture_logs() as logged:
        note_served(tmp_path / "agentctx.db")
    assert [line["event"] for line in logged] == ["database_not_noted"]


ENTRY = {"collection": "knowledge", "key": "new", "content": "green pear"}


async def test_a_removed_database_is_reported_everywhere_and_ends_the_watch(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with running_core(folder, None) as core:
        saved = await save(core, key="k", content="red apple")
        watching = asyncio.create_task(watch_files(core.storage))
        await asyncio.to_thread(shutil.rmtree, folder)
        with pytest.raises(StorageFailed, match="removed"):
            await save(core, key="new", content="green pear")
        async with running(
            asgi=create_app(core, core.guard(access_control()), Settings(), core.telemetry)
        ) as daemon:
            ready = await daemon.http.get("/readyz")
            refused = await daemon.http.post("/v1/entries", json=ENTRY)
            read = await daemon.http.get(f"/v1/entries/{saved.id}")
        assert ready.status_code == 503
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_failed")
        assert read.status_code == 200
        assert scraped(await core.metrics.metrics())["agentctx_database_writable"] == 0
        only = ["running.writes", "database.schema"]
        found = {check.id: check.status for check in (await core.examiner.doctor(ME, only=only)).checks}
        assert found == {"running.writes": "fail", "database.schema": "skip"}
        async with asyncio.timeout(30):
            lost = await watching
        (copy,) = folder.glob("agentctx.db.rescued-*Z")
        assert str(copy) in lost.hint
