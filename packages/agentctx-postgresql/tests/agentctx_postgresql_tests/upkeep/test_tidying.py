"""Forgotten text leaves the server's tables and indexes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from agentctx.errors import DeadlineExceeded
from agentctx.storage.search import Filter
from agentctx_postgresql.driver import Connection
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.upkeep import leases, tidying
from agentctx_postgresql_tests.server import RunningServer
from agentctx_testing.conformance.storage.injections import FULL
from agentctx_testing.drafts import draft, embed, keyless, save, serving_space, vector, vectors

WORD = "zyzzyvaword"
KEY = "keyofsecrets"


def relations_containing(server: RunningServer, database: str, text: str) -> set[str]:
    """Return the tables and indexes whose files contain the text."""
    name = database.partition("?")[0].rpartition("/")[2]
    server.sql("CHECKPOINT", name)
    paths = server.sql(
        """SELECT relname || ' ' || pg_relation_filepath(oid) FROM pg_class
           WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')""",
        name,
    )
    found = set()
    for line in paths.splitlines():
        relation, path = line.split()
        if text.encode() in (server.folder / "data" / path).read_bytes():
            found.add(relation)
    return found


async def tidy_completely(storage: PostgresqlStorage) -> None:
    """Tidy as the daemon does, until nothing prevents it: autovacuum has snapshots, too."""
    async with asyncio.timeout(120):
        while not await storage.upkeep.tidy():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.1)


async def test_a_forgotten_word_and_key_leave_the_indexes_and_statistics(
    storage: PostgresqlStorage, server: RunningServer, database: str
) -> None:
    await serving_space(storage)
    for number in range(50):
        await embed(storage, await save(storage, draft(f"text {number}", key=f"key {number}")))
    saved = await save(storage, draft(f"a {WORD} of the text", key=KEY))
    await embed(storage, saved)
    assert {"entries", "chunk_words", "chunk_words_terms"} <= await asyncio.to_thread(
        relations_containing, server, database, WORD
    )
    await storage.entries.delete(saved.id)
    await asyncio.wait_for(storage.upkeep.wait_for_work(), 30)
    await tidy_completely(storage)
    assert "chunk_words_terms" not in await asyncio.to_thread(relations_containing, server, database, WORD)
    assert "entries_live_key" not in await asyncio.to_thread(relations_containing, server, database, KEY)
    known = "SELECT count(*) FROM pg_stats WHERE most_common_elems::text LIKE '%' || $1 || '%'"
    assert await storage.db.read(lambda conn: conn.fetchval(known, WORD)) == 0
    assert await storage.upkeep.tidy(), "nothing is left to do"


def secrets_on_disk(server: RunningServer, database: str, needles: Sequence[bytes]) -> set[bytes]:
    """Return the needles found in any file of the database: tables, TOAST, indexes and the catalog."""
    name = database.partition("?")[0].rpartition("/")[2]
    server.sql("CHECKPOINT", name)
    number = server.sql("SELECT oid FROM pg_database WHERE datname = current_database()", name)
    found: set[bytes] = set()
    for path in (server.folder / "data" / "base" / number).iterdir():
        with suppress(FileNotFoundError):  # the server removes replaced files
            held = path.read_bytes()
            found |= {needle for needle in needles if needle in held}
    return found


async def save_secrets(storage: PostgresqlStorage) -> tuple[list[str], list[bytes]]:
    """Save entries with secrets in every field; return their ids and the bytes to look for."""
    rng = random.Random(0)
    ids, needles = [], []
    for number in range(16):
        text, key, label, tag, question = (f"{name}x{rng.randbytes(8).hex()}" for name in "tklgq")
        long = " ".join(rng.randbytes(8).hex() for _ in range(300)) if number % 2 else ""  # stored in TOAST
        saved = await save(
            storage,
            draft(f"{text} {long}", key=key, labels=label, attributes={"tags": [tag]}),
        )
        place = vector(*(rng.uniform(0.1, 1) for _ in range(3)))
        await storage.jobs.complete(saved.jobs, vectors(*[place] * len(saved.jobs)))
        figures = FULL.candidates[0]._replace(entry=saved.id)
        receipt = replace(FULL, id=f"{number:012}", question=question, candidates=(figures,))
        await storage.injections.add([receipt])
        ids.append(saved.id)
        needles += [each.encode() for each in (text, key, label, tag, question)]
        needles.append(place.astype(np.float16).tobytes())
        needles += [long[-40:].encode()] if long else []
    return ids, needles


async def test_a_rewrite_leaves_no_byte_of_forgotten_entries(
    storage: PostgresqlStorage, server: RunningServer, database: str
) -> None:
    await serving_space(storage)
    for number in range(20):
        await embed(storage, await save(storage, keyless(f"text {number}")))
    ids, needles = await save_secrets(storage)
    await tidy_completely(storage)  # also analyses the words

    async def remaining() -> set[bytes]:
        return await asyncio.to_thread(secrets_on_disk, server, database, needles)

    assert await remaining() == set(needles), "every secret can be found on disk"
    for entry_id in ids:
        await storage.entries.delete(entry_id)
    assert await remaining(), "an index keeps words until it is rebuilt"
    assert await storage.upkeep.rewrite() == tidying.BEYOND_REACH
    assert await remaining() == set()
    assert len((await storage.entries.list_entries(Filter(namespace="default"), limit=50))[0]) == 20
    assert (await storage.upkeep.census()).vectors == 20


async def test_a_rewrite_blocked_by_older_transactions_says_so_and_tidying_stays_due(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "REWRITE_WAIT_S", 0)
    saved = await save(storage, draft("text"))
    async with open_snapshot(storage):
        await storage.entries.delete(saved.id)
        with pytest.raises(DeadlineExceeded, match="still open"):
            await storage.upkeep.rewrite()
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ($1, 'b', 9e15)", tidying.TASK)
    )
    with pytest.raises(DeadlineExceeded, match="Another daemon"):
        await storage.upkeep.rewrite()
    await asyncio.wait_for(storage.upkeep.wait_for_work(), 30)


async def test_an_index_left_by_a_killed_reindex_is_dropped(
    storage: PostgresqlStorage,
) -> None:
    left = "chunk_words_terms_ccnew1"

    async def leave(conn: Connection) -> None:
        await conn.execute("CREATE EXTENSION amcheck")
        await conn.execute(f"CREATE INDEX {left} ON chunk_words USING gin (words)")
        await conn.execute("CREATE INDEX entries_live_key_ccnew ON entries (key)")
        await conn.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text ~ '_ccnew'"
        )

    await storage.db.prepare(leave)
    assert await storage.upkeep.check_integrity() == []
    await storage.entries.delete((await save(storage, draft("text"))).id)
    await tidy_completely(storage)
    leftovers = "SELECT relname FROM pg_class WHERE relname ~ '_cc'"
    assert await storage.db.read(lambda conn: conn.fetch(leftovers)) == []


@asynccontextmanager
async def open_snapshot(storage: PostgresqlStorage) -> AsyncIterator[None]:
    """Keep an older transaction open that has read something."""
    inside, may_end = asyncio.Event(), asyncio.Event()

    async def read(conn: Connection) -> None:
        await conn.fetchval("SELECT count(*) FROM entries")
        inside.set()
        await may_end.wait()

    reader = asyncio.create_task(storage.db.read(read, 120))
    try:
        await asyncio.wait_for(inside.wait(), 30)
        yield
    finally:
        may_end.set()
        await reader


async def test_an_older_snapshot_prevents_tidying(storage: PostgresqlStorage) -> None:
    saved = await save(storage, draft("text"))
    async with open_snapshot(storage):
        await storage.entries.delete(saved.id)
        assert not await storage.upkeep.tidy()
    await tidy_completely(storage)


async def test_tidying_stays_due_while_another_daemon_tidies(storage: PostgresqlStorage) -> None:
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ($1, 'b', 9e15)", tidying.TASK)
    )
    assert not await storage.upkeep.tidy()
    await storage.db.write(lambda conn: conn.execute("DELETE FROM upkeep_leases"))
    await tidy_completely(storage)
    assert await leases.take(storage.db, tidying.TASK)
