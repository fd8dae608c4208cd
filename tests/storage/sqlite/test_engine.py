"""The SQLite engine: the conformance suite and what only this engine does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentctx.errors import StorageClosed, StorageFull
from agentctx.storage.file.driver import Connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.entries.rows import SELECT_CHUNKS
from agentctx.storage.sqlite.search.filters import entry_condition
from agentctx_testing.conformance.storage import StorageConformance
from agentctx_testing.drafts import ALL, ManualClock, assert_sound, draft, embed, keyless, save, serving_space


class TestSqliteStorage(StorageConformance):
    """Runs the suite."""


async def test_everything_survives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "agentctx.db"
    first = await SqliteStorage.open(path, clock=clock)
    await serving_space(first)
    saved = await save(first, draft())
    await first.close()
    second = await SqliteStorage.open(path, clock=clock)
    try:
        assert (await second.entries.get(saved.id)) is not None
        assert await embed(second, saved) == 1
        await assert_sound(second)
    finally:
        await second.close()


CRASHES = """
import os, sys
from agentctx.storage.file.driver import open_connection
connection = open_connection(sys.argv[1])
connection.execute("INSERT INTO installation VALUES ('more', zeroblob(2000000))")
os._exit(0)
"""


async def test_a_start_does_not_wait_for_the_wal_of_a_crash_to_be_moved(
    tmp_path: Path, clock: ManualClock
) -> None:
    path, wal = tmp_path / "agentctx.db", tmp_path / "agentctx.db-wal"
    storage = await SqliteStorage.open(path, clock=clock)
    saved = await storage.entries.save(draft(), embed=False)
    await storage.close()
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", CRASHES, str(path)], check=True)
    left = wal.stat().st_size
    assert left > 2_000_000
    storage = await SqliteStorage.open(path, clock=clock)
    try:
        assert wal.stat().st_size >= left
        assert await storage.entries.get(saved.id) is not None
    finally:
        await storage.close()
    assert not wal.exists()


async def test_a_full_disk_only_fails_the_save(storage: SqliteStorage) -> None:
    kept = await save(storage, draft())

    def forbid_growth(conn: Connection) -> None:
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages}")

    def allow_growth(conn: Connection) -> None:
        conn.execute("PRAGMA max_page_count = 1000000")

    await storage.db.writer.run(forbid_growth)
    with pytest.raises(StorageFull):
        await save(storage, keyless("x " * 200_000))
    assert (await storage.entries.get(kept.id)) is not None
    await assert_sound(storage)
    await storage.db.writer.run(allow_growth)
    await save(storage, keyless("x " * 200_000))
    await assert_sound(storage)


async def test_a_deleted_text_leaves_no_bytes_on_disk(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path, clock=clock)
    await serving_space(storage)
    saved = await save(
        storage,
        draft(
            "the passphrase is xylophone-marzipan",
            labels="quagmire",
            header="zephyr",
            attributes={"cues": ["unlocking the wunderkammer"]},
        ),
    )
    await embed(storage, saved)
    await save(storage, keyless("another entry that stays"))
    await storage.entries.delete(saved.id)
    await storage.close()
    left = _all_bytes(tmp_path)
    assert b"another entry" in left
    for word in (b"xylophone", b"marzipan", b"quagmire", b"zephyr", b"wunderkammer"):
        assert word not in left


async def test_every_call_fails_after_close(storage: SqliteStorage) -> None:
    await storage.close()
    with pytest.raises(StorageClosed):
        await save(storage, draft())
    with pytest.raises(StorageClosed):
        await storage.entries.get("x")


def _all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_resolving_chunks_never_scans_a_table(storage: SqliteStorage) -> None:
    """Left to itself, the planner would read every entry of the namespace."""
    condition = entry_condition(ALL, now=0)

    def plan(conn: Connection) -> list[str]:
        sql = f"EXPLAIN QUERY PLAN {SELECT_CHUNKS} WHERE {condition.sql}"
        return [row[3] for row in conn.execute(sql, ("[]", *condition.parameters))]

    steps = await storage.db.readers.run(plan)
    assert [step for step in steps if "entries" in step or " e " in step] == [
        "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH n USING INDEX sqlite_autoindex_entries_1 (id=?)",  # what supersedes it
    ]
    assert "SEARCH chunks USING INTEGER PRIMARY KEY (rowid=?)" in steps
