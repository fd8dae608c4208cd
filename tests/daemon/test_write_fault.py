"""A failed disk is reported in status, readiness, metrics and doctor, and to every client."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.schema import Settings
from agentctx.errors import StorageFailed
from agentctx.server.app import create_app
from agentctx.storage.file import recovery
from tests.running_core import ME, running_core, save, sqlite_of
from tests.server.running import running
from tests.service.access.peers import access_control
from tests.service.telemetry.scraped import scraped
from tests.storage.file.test_recovery import FRAME, limit_file_size, until_sound

ENTRY = {"collection": "knowledge", "key": "new", "content": "green pear"}
LARGE = "x" * 100_000


async def test_a_disk_fault_is_reported_everywhere_and_reads_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_broken = True

    def probe(_: Path) -> None:
        if is_broken:
            raise StorageFailed("The disk of the database still fails: EIO")

    monkeypatch.setattr(recovery, "probe_disk", probe)
    async with running_core(tmp_path, None) as core:
        saved = await save(core, key="k", content="red apple")
        assert (await core.status.status(ME)).database.fault is None
        wal_bytes = (await core.storage.stats()).wal_bytes
        with limit_file_size(wal_bytes + 5 * FRAME), pytest.raises(StorageFailed):
            await save(core, key="large", content=LARGE)

        fault = (await core.status.status(ME)).database.fault
        assert fault
        async with running(
            asgi=create_app(core, core.guard(access_control()), Settings(), core.telemetry)
        ) as daemon:
            ready = await daemon.http.get("/readyz")
            refused = await daemon.http.post("/v1/entries", json=ENTRY)
            read = await daemon.http.get(f"/v1/entries/{saved.id}")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "unavailable")
        assert "nothing can be saved" in ready.json()["error"]["message"]
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_failed")
        assert read.status_code == 200
        assert scraped(await core.metrics.metrics())["agentctx_database_writable"] == 0
        (check,) = (await core.examiner.doctor(ME, only=["running.writes"])).checks
        assert check.status == "fail"

        is_broken = False
        await until_sound(sqlite_of(core).db.writer)
        assert core.status.not_ready() is None
        assert (await core.status.status(ME)).database.fault is None
        assert scraped(await core.metrics.metrics())["agentctx_database_writable"] == 1
        await save(core, key="after", content="blue plum")
