"""What was forgotten leaves the tables and indexes of the server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from agentctx.errors import DeadlineExceeded
from agentctx.storage.postgresql.driver import Connection
from agentctx.storage.postgresql.engine import PostgresqlStorage
from agentctx.storage.postgresql.upkeep import leases, tidying
from agentctx.storage.search import Filter
from tests.storage.conformance import embed, save, serving_space
from tests.storage.drafts import draft, keyless, vector, vectors
from tests.storage.postgresql.server import RunningServer
from tests.storage.sqlite.audit.test_injections import FULL

WORD = "zyzzyvaword"
KEY = "keyofsecrets"


def held_in(server: RunningServer, database: str, text: str) -> set[str]:
    """The tables and indexes in whose files, as they are on the disk, the text is."""
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


async def tidied(storage: PostgresqlStorage) -> None:
    """As the daemon does, until nothing is in the way: autovacuum has snapshots, too."""
    async with asyncio.timeout(120):
        while not await storage.upkeep.tidy():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.1)


async def test_a_forgotten_word_and_key_leave_the_indexes_and_the_statistics(
    storage: PostgresqlStorage, server: RunningServer, database: str
) -> None:
    await serving_space(storage)
    for number in range(50):
        await embed(storage, await save(storage, draft(f"text {number}", key=f"key {number}")))
    saved = await save(storage, draft(f"a {WORD} of the text", key=KEY))
    await embed(storage, saved)
    assert {"entries", "chunk_words", "chunk_words_terms"} <= await asyncio.to_thread(
        held_in, server, database, WORD
    )
    await storage.entries.delete(saved.id)
    await asyncio.wait_for(storage.upkeep.wait_until_untidy(), 30)
    await tidied(storage)
    assert "chunk_words_terms" not in await asyncio.to_thread(held_in, server, database, WORD)
    assert "entries_live_key" not in await asyncio.to_thread(held_in, server, database, KEY)
    known = "SELECT count(*) FROM pg_stats WHERE most_common_elems::text LIKE '%' || $1 || '%'"
    assert await storage.db.read(lambda conn: conn.fetchval(known, WORD)) == 0
    assert await storage.upkeep.tidy(), "nothing is left to do"


def needles_in(server: RunningServer, database: str, needles: Sequence[bytes]) -> set[bytes]:
    """The needles that are anywhere in the database's folder: tables, TOAST, indexes and the catalog."""
    name = database.partition("?")[0].rpartition("/")[2]
    server.sql("CHECKPOINT", name)
    number = server.sql("SELECT oid FROM pg_database WHERE datname = current_database()", name)
    found: set[bytes] = set()
    for path in (server.folder / "data" / "base" / number).iterdir():
        with suppress(FileNotFoundError):  # the server removes files that it has replaced
            held = path.read_bytes()
            found |= {needle for needle in needles if needle in held}
    return found


async def save_secrets(storage: PostgresqlStorage) -> tuple[list[str], list[bytes]]:
    """Save entries with secrets in every field; return their ids and what the files have of them."""
    rng = random.Random(0)
    ids, needles = [], []
    for number in range(16):
        text, key, label, tag, question = (f"{name}x{rng.randbytes(8).hex()}" for name in "tklgq")
        long = " ".join(rng.randbytes(8).hex() for _ in range(300)) if number % 2 else ""  # kept in TOAST
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


async def test_a_rewrite_leaves_no_byte_of_what_was_forgotten(
    storage: PostgresqlStorage, server: RunningServer, database: str
) -> None:
    await serving_space(storage)
    for number in range(20):
        await embed(storage, await save(storage, keyless(f"text {number}")))
    ids, needles = await save_secrets(storage)
    await tidied(storage)  # which analyses their words

    async def look() -> set[bytes]:
        return await asyncio.to_thread(needles_in, server, database, needles)

    assert await look() == set(needles), "they are looked for in a way that finds them"
    for entry_id in ids:
        await storage.entries.delete(entry_id)
    assert await look(), "an index keeps words at least until it is rebuilt"
    assert await storage.upkeep.rewrite() == tidying.BEYOND_REACH
    assert await look() == set()
    assert len((await storage.entries.list_entries(Filter(namespace="default"), limit=50))[0]) == 20
    assert (await storage.upkeep.census()).vectors == 20


async def test_a_rewrite_that_older_transactions_prevent_says_so_and_tidying_stays_due(
    storage: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "REWRITE_WAIT_S", 0)
    saved = await save(storage, draft("text"))
    async with an_open_snapshot(storage):
        await storage.entries.delete(saved.id)
        with pytest.raises(DeadlineExceeded, match="still open"):
            await storage.upkeep.rewrite()
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ($1, 'b', 9e15)", tidying.TASK)
    )
    with pytest.raises(DeadlineExceeded, match="Another daemon"):
        await storage.upkeep.rewrite()
    await asyncio.wait_for(storage.upkeep.wait_until_untidy(), 30)


async def test_what_a_killed_reindex_left_is_dropped_with_the_deleted_words_in_it(
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
    await tidied(storage)
    leftovers = "SELECT relname FROM pg_class WHERE relname ~ '_cc'"
    assert await storage.db.read(lambda conn: conn.fetch(leftovers)) == []


@asynccontextmanager
async def an_open_snapshot(storage: PostgresqlStorage) -> AsyncIterator[None]:
    """Another transaction that began before, and reads."""
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def look(conn: Connection) -> None:
        await conn.fetchval("SELECT count(*) FROM entries")
        inside.set()
        await go_on.wait()

    reader = asyncio.create_task(storage.db.read(look, 120))
    try:
        await asyncio.wait_for(inside.wait(), 30)
        yield
    finally:
        go_on.set()
        await reader


async def test_an_older_snapshot_is_in_the_way(storage: PostgresqlStorage) -> None:
    saved = await save(storage, draft("text"))
    async with an_open_snapshot(storage):
        await storage.entries.delete(saved.id)
        assert not await storage.upkeep.tidy()
    await tidied(storage)


async def test_while_another_daemon_tidies_it_stays_due(storage: PostgresqlStorage) -> None:
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ($1, 'b', 9e15)", tidying.TASK)
    )
    assert not await storage.upkeep.tidy()
    await storage.db.write(lambda conn: conn.execute("DELETE FROM upkeep_leases"))
    await tidied(storage)
    assert await leases.take(storage.db, tidying.TASK)
