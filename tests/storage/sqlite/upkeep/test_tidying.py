"""Deleted text leaves the WAL, and is overwritten in the database."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.storage.file.driver import open_connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep import tidying
from agentctx_testing.conformance.storage.repair import embed_pending, prepared_space
from agentctx_testing.drafts import draft, keyless


async def test_tidying_removes_deleted_text_from_the_files(tmp_path: Path, storage: SqliteStorage) -> None:
    await prepared_space(storage)
    secret = await storage.entries.save(
        draft("the passphrase is xylophone-marzipan", labels="quagmire"), embed=True
    )
    kept = await storage.entries.save(keyless("another entry that stays"), embed=True)
    await embed_pending(storage)
    assert await storage.upkeep.tidy()
    await storage.entries.delete(secret.id)
    assert await storage.upkeep.tidy()
    left = await bytes_on_disk(tmp_path)
    assert b"another entry" in left
    for word in (b"xylophone", b"marzipan", b"quagmire"):
        assert word not in left
    assert (await storage.entries.get(kept.id)) is not None


async def test_expired_text_leaves_the_files_too(tmp_path: Path, storage: SqliteStorage) -> None:
    await storage.entries.save(keyless("the passphrase is xylophone", expires=1), embed=False)
    await storage.upkeep.tidy()
    assert b"xylophone" in await bytes_on_disk(tmp_path)
    await storage.entries.sweep()
    assert await storage.upkeep.tidy()
    assert b"xylophone" not in await bytes_on_disk(tmp_path)


async def test_tidying_does_nothing_unless_something_was_deleted(storage: SqliteStorage) -> None:
    assert await storage.upkeep.tidy(), "an earlier daemon may have left something"
    await storage.entries.save(keyless("saved"), embed=False)
    await storage.entries.sweep()
    assert await storage.upkeep.tidy()
    assert (await storage.stats()).wal_bytes > 0


async def test_a_reader_postpones_tidying(
    tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "PATIENCE_MS", 1)
    saved = await storage.entries.save(keyless("read while it is deleted"), embed=False)
    with closing(open_connection(tmp_path / "agentctx.db", readonly=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM entries").fetchone()
        await storage.entries.delete(saved.id)
        assert not await storage.upkeep.tidy()
        reader.execute("ROLLBACK")
    assert await storage.upkeep.tidy()
    assert (await storage.stats()).wal_bytes == 0


async def bytes_on_disk(folder: Path) -> bytes:
    """Read the files in another process: closing a descriptor here would drop SQLite's locks."""
    files = [str(file) for file in sorted(folder.iterdir())]  # noqa: ASYNC240 - one folder of a test
    process = await asyncio.create_subprocess_exec("cat", *files, stdout=asyncio.subprocess.PIPE)
    left, _ = await process.communicate()
    return left
