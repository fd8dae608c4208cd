"""A server with a full disk: saves are refused, nothing is lost, and saving resumes."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctx.errors import StorageFull
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.clients import opened, save, stored_ids
from agentctx_postgresql_tests.conftest import TEMPLATE
from agentctx_postgresql_tests.server import RunningServer
from agentctx_testing.drafts import assert_sound

SIZE_MB = 48
MAX_SAVES = 2_000


@pytest.fixture
def small_disk(server: RunningServer) -> Iterator[Path]:
    """A separate file system that the server may write to."""
    folder = Path(tempfile.mkdtemp(prefix="agentctx-pg-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        folder.rmdir()
        pytest.skip("a file system can only be mounted by root, outside of most containers")
    data = server.folder / "data"
    shutil.chown(folder, data.owner(), data.group())
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
def database_on_small_disk(server: RunningServer, small_disk: Path) -> Iterator[str]:
    """The URL of a database on the small disk."""
    server.sql(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    server.sql(f"CREATE DATABASE cramped TEMPLATE {TEMPLATE} TABLESPACE small")
    yield server.url("cramped")
    server.sql("DROP DATABASE cramped WITH (FORCE)")
    server.sql("DROP TABLESPACE small")


async def test_a_full_disk_refuses_saves_until_there_is_room(
    database_on_small_disk: str, small_disk: Path
) -> None:
    storage = await opened(database_on_small_disk)
    ballast = small_disk / "ballast"
    try:
        acknowledged = [await save(storage, "before")]
        await asyncio.to_thread(fill_disk, ballast, small_disk)
        with pytest.raises(StorageFull, match="no disk space"):
            await save_until_refused(storage, acknowledged)
        assert set(await stored_ids(storage)) == set(acknowledged), "reads still work"
        await asyncio.to_thread(ballast.unlink)
        acknowledged.append(await save(storage, "after"))
        assert set(await stored_ids(storage)) == set(acknowledged)
        await assert_sound(storage)
    finally:
        await storage.close()


async def save_until_refused(storage: PostgresqlStorage, acknowledged: list[str]) -> None:
    for _ in range(MAX_SAVES):
        text = " ".join(os.urandom(8).hex() for _ in range(400))
        acknowledged.append(await save(storage, text))


def fill_disk(ballast: Path, disk: Path) -> None:
    """Leave half a megabyte free."""
    free = shutil.disk_usage(disk).free
    with ballast.open("wb") as file:
        file.write(bytes(max(free - 524_288, 0)))
