"""Deleted text leaves the files."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from agentctx.errors import DeadlineExceeded, StorageFailed, StorageFull
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import residue
from agentctx.storage.sqlite.upkeep import tidying
from agentctx_testing.conformance.storage.repair import embed_pending, prepared_space
from agentctx_testing.drafts import draft, keyless
from tests.storage.sqlite_saboteur import SqliteSaboteur


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
    left = await _bytes_on_disk(tmp_path)
    assert b"another entry" in left
    for word in (b"xylophone", b"marzipan", b"quagmire"):
        assert word not in left
    assert (await storage.entries.get(kept.id)) is not None


async def test_a_rewrite_removes_deleted_text_immediately_or_says_why_not(
    tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "PATIENCE_MS", 1)
    monkeypatch.setattr("agentctx.storage.sqlite.upkeep.upkeep_storage.REWRITE_WAIT_S", 0)
    saved = await storage.entries.save(keyless("the passphrase is xylophone"), embed=False)
    with closing(open_connection(tmp_path / "agentctx.db", readonly=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM entries").fetchone()
        await storage.entries.delete(saved.id)
        with pytest.raises(DeadlineExceeded, match="being read"):
            await storage.upkeep.rewrite()
    assert b"xylophone" in await _bytes_on_disk(tmp_path)
    assert await storage.upkeep.rewrite() == storage.upkeep.remains == ()
    assert b"xylophone" not in await _bytes_on_disk(tmp_path)


async def test_expired_text_leaves_the_files_too(tmp_path: Path, storage: SqliteStorage) -> None:
    await storage.entries.save(keyless("the passphrase is xylophone", expires=1), embed=False)
    await storage.upkeep.tidy()
    assert b"xylophone" in await _bytes_on_disk(tmp_path)
    await storage.entries.sweep()
    assert await storage.upkeep.tidy()
    assert b"xylophone" not in await _bytes_on_disk(tmp_path)


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


async def _bytes_on_disk(folder: Path) -> bytes:
    """Read the files in another process: closing a descriptor here would drop SQLite's locks."""
    files = [str(file) for file in sorted(folder.iterdir())]  # noqa: ASYNC240 - one folder of a test
    process = await asyncio.create_subprocess_exec("cat", *files, stdout=asyncio.subprocess.PIPE)
    left, _ = await process.communicate()
    return left


SETTINGS = "INSERT INTO chunk_fts (chunk_fts, rank) VALUES (?, ?)"


@pytest.fixture
async def forgotten_words(storage: SqliteStorage) -> SqliteStorage:
    """A database in which a text whose words started index pages was deleted but not tidied."""
    await _set(storage, "pgsz", 64)
    doomed = await storage.entries.save(keyless(_words("zanzibar")), embed=False)
    await storage.entries.save(keyless(_words("zanz") + " the zebra stays"), embed=False)
    await _set(storage, "usermerge", 2)
    await _set(storage, "merge", 1_000)
    await storage.entries.delete(doomed.id)
    return storage


async def _set(storage: SqliteStorage, setting: str, value: int) -> None:
    await storage.db.writer.run(lambda conn: conn.execute(SETTINGS, (setting, value)))


def _words(prefix: str) -> str:
    return " ".join(f"{prefix}{number:03}" for number in range(100))


async def test_no_forgotten_word_stays_in_the_index(tmp_path: Path, forgotten_words: SqliteStorage) -> None:
    assert b"zanzibar" in await _bytes_on_disk(tmp_path)
    assert await forgotten_words.upkeep.tidy()
    left = await _bytes_on_disk(tmp_path)
    assert b"zanzibar" not in left
    assert b"zanz099" in left
    assert await forgotten_words.upkeep.check_words() is None


async def test_a_backup_before_tidying_contains_no_forgotten_word(
    tmp_path: Path, forgotten_words: SqliteStorage
) -> None:
    await forgotten_words.file.back_up(tmp_path / "b.db")
    copied = await asyncio.to_thread((tmp_path / "b.db").read_bytes)
    assert b"the zebra stays" in copied
    assert b"zanzibar" not in copied


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE chunk_fts_idx",
        "UPDATE chunk_fts_data SET block = zeroblob(length(block))",
        "UPDATE chunk_fts_idx SET term = 'a text' || pgno WHERE term <> x''",
    ],
)
async def test_a_damaged_index_does_not_retain_the_text(
    tmp_path: Path, storage: SqliteStorage, damage: str
) -> None:
    saved = await storage.entries.save(keyless("the passphrase is xylophone-marzipan"), embed=False)
    await storage.entries.delete(saved.id)
    SqliteSaboteur(tmp_path / "agentctx.db").run(damage)
    assert await storage.upkeep.tidy()
    assert b"xylophone-marzipan" not in await _bytes_on_disk(tmp_path)


async def test_a_full_disk_may_retain_words_but_not_the_text(
    tmp_path: Path, forgotten_words: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_full(conn: Connection, **_: object) -> None:
        raise StorageFull("No space left for the database.")

    with monkeypatch.context() as patched:
        patched.setattr(residue, "replace_keys", fail_full)
        with pytest.raises(StorageFull):
            await forgotten_words.upkeep.tidy()
    assert _words("zanzibar").encode() not in await _bytes_on_disk(tmp_path)
    assert await forgotten_words.upkeep.tidy(), "tidying is due again"
    assert b"zanzibar" not in await _bytes_on_disk(tmp_path)


async def test_busy_readers_do_not_retain_the_text(
    tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def time_out(*_: object, **__: object) -> None:
        raise DeadlineExceeded("The database did not answer within 1 s.")

    saved = await storage.entries.save(keyless("the passphrase is xylophone-marzipan"), embed=False)
    await storage.entries.delete(saved.id)
    with monkeypatch.context() as patched:
        patched.setattr(storage.db.readers, "run", time_out)
        with pytest.raises(StorageFailed, match="did not answer"):
            await storage.upkeep.tidy()
    assert b"xylophone-marzipan" not in await _bytes_on_disk(tmp_path)
    assert await storage.upkeep.tidy(), "tidying is due again"
