"""Quarantine in PostgreSQL, where several daemons revoke and settle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from agentctx.storage.trust import Source
from agentctx_postgresql import locks
from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.conformance.storage.quarantine import QuarantineConformance
from agentctx_testing.drafts import ManualClock, assert_sound, embed, keyless, save, serving_space


class TestPostgresqlQuarantine(QuarantineConformance):
    """Runs the suite."""


@pytest.fixture
async def other(database: str, clock: ManualClock) -> AsyncIterator[PostgresqlStorage]:
    """A second daemon on the same database."""
    opened = await PostgresqlStorage.open(Server(url=database), daemon="b", clock=clock, server_clock=clock)
    yield opened
    await opened.close()


async def settle_all(storage: PostgresqlStorage) -> list[str]:
    erased: list[str] = []
    while (settled := await storage.trust.settle(embed=True, limit=3)).rows:
        erased += settled.erased
    return erased


async def test_two_daemons_settle_together_and_erase_each_entry_once(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    await serving_space(storage)
    ids = []
    for number in range(20):
        saved = await save(storage, keyless(f"text {number}", agent="bad"))
        await embed(storage, saved)
        ids.append(saved.id)
    revoked = await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
    assert revoked.revocation is not None
    assert await other.trust.forget_revoked(revoked.revocation) == 20
    one, two = await asyncio.gather(settle_all(storage), settle_all(other))
    assert sorted(one + two) == sorted(ids)
    await assert_sound(storage)
    assert not (await storage.audit.verify()).faults


async def test_entries_derived_during_a_revocation_are_quarantined(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    source = await save(storage, keyless("a source", agent="bad"))
    revoked = asyncio.create_task(storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False))
    saves = (save(other, keyless(f"made {n}", derived_from=(source.id,))) for n in range(10))
    made = await asyncio.gather(*saves)
    await revoked
    known = await storage.trust.provenance([each.id for each in made])
    assert all(known[each.id].quarantined == "revoked" for each in made)


async def test_revocations_reach_other_daemons(storage: PostgresqlStorage, other: PostgresqlStorage) -> None:
    announced: asyncio.Queue[Sequence[str]] = asyncio.Queue()
    other.entries.on_erased(announced.put_nowait)
    saved = await save(storage, keyless("text", agent="bad"))
    await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
    assert list(await asyncio.wait_for(announced.get(), 60)) == [saved.id]


async def test_settling_continues_past_rows_that_another_daemon_settled(
    storage: PostgresqlStorage,
) -> None:
    for number in range(2):
        await save(storage, keyless(f"text {number}", agent="bad"))
    await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
    first = await storage.db.read(lambda conn: conn.fetchval("SELECT min(entry) FROM quarantine"))
    has_lock, may_end = asyncio.Event(), asyncio.Event()

    async def settle_first(conn: Connection) -> None:
        await locks.lock_entries(conn, [first])
        await conn.execute("UPDATE quarantine SET state = 'withdrawn' WHERE entry = $1", first)
        has_lock.set()
        await may_end.wait()

    waiting = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
    async with asyncio.timeout(60):
        other = asyncio.create_task(storage.db.write(settle_first))
        await has_lock.wait()
        settling = asyncio.create_task(storage.trust.settle(embed=False, limit=1))
        while not await storage.db.read(lambda conn: conn.fetchval(waiting)):  # noqa: ASYNC110 - polls the server
            await asyncio.sleep(0.02)
        may_end.set()
        await other
        assert (await settling).rows == 1, "another entry is left to settle"
        assert (await storage.trust.settle(embed=False, limit=1)).rows == 1
        assert (await storage.trust.settle(embed=False, limit=1)).rows == 0
