"""One of several daemons does the background work; another takes over when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.upkeep import leases
from agentctx_testing.drafts import ManualClock, keyless, save, serving_space
from tests.running_core import ME, embedded, running_core
from tests.running_core import save as save_entry


@pytest.fixture
async def other(database: str, clock: ManualClock) -> AsyncIterator[PostgresqlStorage]:
    """A second daemon on the same database."""
    opened = await PostgresqlStorage.open(Server(url=database), daemon="b", clock=clock, server_clock=clock)
    yield opened
    await opened.close()


async def expire_leases(storage: PostgresqlStorage) -> None:
    """Expire all leases, as if no daemon renewed them."""
    await storage.db.write(lambda conn: conn.execute("UPDATE upkeep_leases SET until = 0"))


async def test_one_daemon_leads_until_it_stops_renewing(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    assert await leases.take(storage.db, "x")
    assert not await leases.take(other.db, "x")
    assert await leases.take(storage.db, "x"), "a daemon renews its own lease"
    assert await leases.take(other.db, "y"), "each task has its own lease"
    await expire_leases(storage)
    assert await leases.take(other.db, "x")
    assert not await leases.take(storage.db, "x")
    await leases.release(storage.db, "x")
    assert not await leases.take(storage.db, "x"), "a daemon cannot release another's lease"
    await leases.release(other.db, "x")
    assert await leases.take(storage.db, "x")


async def test_one_daemon_backfills_a_space_and_the_next_resumes(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    space = (await serving_space(storage)).id
    for number in range(5):
        await storage.entries.save(keyless(f"text {number}"), embed=False)

    async def backfill(by: PostgresqlStorage) -> int | None:
        return await by.spaces.backfill(space, limit=2)

    assert await backfill(storage) == 2
    assert await backfill(other) is None, "the first daemon has the lease"
    await expire_leases(storage)
    assert [await backfill(each) for each in (other, storage, other, other)] == [2, None, 1, 0]
    assert await backfill(storage) == 0, "the lease is released at the end"
    assert (await storage.upkeep.census()).violations == 0
    assert (await storage.jobs.depth()).pending == 5


async def test_a_daemon_embeds_new_saves_and_takes_over_a_dead_daemons_backfill(
    database: str, tmp_path: Path, storage: PostgresqlStorage
) -> None:
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ('backfill 1', 'killed', 9e15)")
    )
    before = (await storage.entries.save(keyless("before"), embed=False)).id
    async with running_core(tmp_path, FakeProvider(), storage={"url": database}) as core:
        saved = await save_entry(core, key="k", content="red apple")
        await asyncio.wait_for(embedded(core), 60)
        assert (await core.entries.get(saved.id, ME)).embedding == "done"
        assert (await storage.upkeep.census()).chunks_without_job == 1, "the entry saved before"
        await expire_leases(storage)
        async with asyncio.timeout(60):
            while (await core.entries.get(before, ME)).embedding != "done":  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.05)


async def test_one_daemon_scrubs_and_the_next_resumes(
    storage: PostgresqlStorage, other: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx_postgresql.upkeep.scrub.ROWS_PER_SLICE", 2)
    for number in range(5):
        await save(storage, keyless(f"text {number}"))
    assert await storage.scrub.step()
    assert not await other.scrub.step(), "the first daemon has the lease"
    await expire_leases(storage)
    assert [await other.scrub.step() for _ in range(2)] == [True, False]
    assert ((await storage.scrub.state()).finished, (await storage.scrub.state()).damaged) == (
        ManualClock().now,
        0,
    )


async def test_the_scrub_finds_damaged_content(storage: PostgresqlStorage) -> None:
    saved = await save(storage, keyless("as it was saved"))
    await save(storage, keyless("another"))
    await storage.db.write(
        lambda conn: conn.execute("UPDATE entries SET content = 'as it was saveD' WHERE id = $1", saved.id)
    )
    assert [(each.entry, each.what) for each in await storage.scrub.check_all()] == [(saved.id, "entry")]
    assert storage.scrub.failures == 1
