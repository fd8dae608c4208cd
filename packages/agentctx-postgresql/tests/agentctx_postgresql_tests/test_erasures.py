"""Following erasures of other daemons by transactions and snapshots: a sequence is not in commit order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest

from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.erasures import record_erasure
from agentctx_postgresql.search import terms
from agentctx_testing.drafts import keyless

WRITERS = 8
TRANSACTIONS = 125
ROWS = 20
WAIT_S = 60


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresqlStorage]:
    storage = await PostgresqlStorage.open(Server(url=database), daemon="a")
    yield storage
    await storage.close()


class BySequence:
    """The negative control: it reads rows with a higher number than any it has read."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._last = 0

    async def poll(self, storage: PostgresqlStorage) -> None:
        rows = await storage.db.read(
            lambda conn: conn.fetch("SELECT entry, seq FROM erasures WHERE seq > $1", self._last)
        )
        self.seen.update(row[0] for row in rows)
        self._last = max((row[1] for row in rows), default=self._last)


async def test_words_of_erased_texts_leave_the_cache(storage: PostgresqlStorage) -> None:
    saved = await storage.entries.save(keyless("Xylophonists rehearse."), embed=False)
    assert "xylophonists" in terms._tokenizer()._stems
    assert terms._INDEXED
    await storage.entries.delete(saved.id)
    assert not terms._tokenizer()._stems
    assert not terms._INDEXED


async def test_none_of_20_000_rows_with_delayed_commits_is_missed(storage: PostgresqlStorage) -> None:
    await storage.db.write(
        lambda conn: conn.execute("ALTER TABLE erasures ADD seq bigint GENERATED ALWAYS AS IDENTITY")
    )
    seen: set[str] = set()
    storage.entries.on_erased(seen.update)
    control = BySequence()
    early = asyncio.Event()
    may_commit = asyncio.Event()

    async def slow(conn: Connection) -> None:
        await record_erasure(conn, ["early"])
        early.set()
        await may_commit.wait()

    async def write(writer: int) -> None:
        for transaction in range(TRANSACTIONS):
            await storage.db.write(partial(delayed, ids=names(writer, transaction)))

    async def poll_both() -> None:
        await storage.db.erasures.poll(storage.db)
        await control.poll(storage)

    async with asyncio.timeout(WAIT_S):
        first = asyncio.create_task(storage.db.write(slow))
        await early.wait()
        writers = [asyncio.create_task(write(writer)) for writer in range(WRITERS)]
        while not control.seen:  # a later number, so that the control certainly misses the early row
            await poll_both()
        may_commit.set()
        while not all(writer.done() for writer in writers):
            await poll_both()
        await asyncio.gather(first, *writers)
        await poll_both()
    written = {"early"}.union(*(names(w, t) for w in range(WRITERS) for t in range(TRANSACTIONS)))
    assert len(written) == 20_001
    assert written - seen == set()
    assert "early" in written - control.seen


def names(writer: int, transaction: int) -> list[str]:
    return [f"{writer}-{transaction}-{row}" for row in range(ROWS)]


async def delayed(conn: Connection, ids: Sequence[str]) -> None:
    await record_erasure(conn, ids)
    await conn.execute("SELECT pg_sleep(random() * 0.003)")
