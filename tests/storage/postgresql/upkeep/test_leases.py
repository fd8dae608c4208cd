"""Of several daemons one does the background work, and another takes over when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.embedding_providers.fake import FakeProvider
from agentctx.storage.postgresql.driver import Server
from agentctx.storage.postgresql.engine import PostgresqlStorage
from agentctx.storage.postgresql.upkeep import leases
from tests.running_core import ME, embedded, running_core
from tests.running_core import save as save_entry
from tests.storage.conformance import save, serving_space
from tests.storage.drafts import HandClock, keyless


@pytest.fixture
async def other(database: str, clock: HandClock) -> AsyncIterator[PostgresqlStorage]:
    """A second daemon on the same database."""
    opened = await PostgresqlStorage.open(Server(url=database), daemon="b", clock=clock, server_clock=clock)
    yield opened
    await opened.close()


async def end_leases(storage: PostgresqlStorage) -> None:
    """As time does when a daemon renews none."""
    await storage.db.write(lambda conn: conn.execute("UPDATE upkeep_leases SET until = 0"))


async def test_one_daemon_leads_until_it_stops_renewing(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    assert await leases.take(storage.db, "x")
    assert not await leases.take(other.db, "x")
    assert await leases.take(storage.db, "x"), "it renews its own"
    assert await leases.take(other.db, "y"), "each task has its own"
    await end_leases(storage)
    assert await leases.take(other.db, "x")
    assert not await leases.take(storage.db, "x")
    await leases.release(storage.db, "x")
    assert not await leases.take(storage.db, "x"), "the lease of another is not released"
    await leases.release(other.db, "x")
    assert await leases.take(storage.db, "x")


async def test_one_daemon_backfills_a_space_and_the_next_continues_where_it_ended(
    storage: PostgresqlStorage, other: PostgresqlStorage
) -> None:
    space = (await serving_space(storage)).id
    for number in range(5):
        await storage.entries.save(keyless(f"text {number}"), embed=False)

    async def made(by: PostgresqlStorage) -> int | None:
        return await by.spaces.backfill(space, limit=2)

    assert await made(storage) == 2
    assert await made(other) is None, "the first has the lease"
    await end_leases(storage)
    assert [await made(each) for each in (other, storage, other, other)] == [2, None, 1, 0]
    assert await made(storage) == 0, "the lease is released at the end"
    assert (await storage.upkeep.census()).violations == 0
    assert (await storage.jobs.depth()).pending == 5


async def test_a_daemon_embeds_while_the_backfill_is_another_s_and_takes_over_when_that_died(
    database: str, tmp_path: Path, storage: PostgresqlStorage
) -> None:
    await storage.db.write(
        lambda conn: conn.execute("INSERT INTO upkeep_leases VALUES ('backfill 1', 'killed', 9e15)")
    )
    before = (await storage.entries.save(keyless("before"), embed=False)).id
    async with running_core(tmp_path, FakeProvider(), storage={"url": database}) as core:
        saved = await save_entry(core, key="k", content="red apple")
        await asyncio.wait_for(embedded(core), 60)
        assert (await core.service.get(saved.id, ME)).embedding == "done"
        assert (await storage.upkeep.census()).chunks_without_job == 1, "of the entry from before"
        await end_leases(storage)
        async with asyncio.timeout(60):
            while (await core.service.get(before, ME)).embedding != "done":  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.05)


async def test_one_daemon_scrubs_and_the_next_continues_where_it_ended(
    storage: PostgresqlStorage, other: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx.storage.postgresql.upkeep.scrub.ROWS_PER_SLICE", 2)
    for number in range(5):
        await save(storage, keyless(f"text {number}"))
    assert await storage.scrub.step()
    assert not await other.scrub.step(), "the first has the lease"
    await end_leases(storage)
    assert [await other.scrub.step() for _ in range(2)] == [True, False]
    assert ((await storage.scrub.state()).finished, (await storage.scrub.state()).damaged) == (
        HandClock().now,
        0,
    )


async def test_a_damaged_content_is_found_by_the_scrub(storage: PostgresqlStorage) -> None:
    saved = await save(storage, keyless("as it was saved"))
    await save(storage, keyless("another"))
    await storage.db.write(
        lambda conn: conn.execute("UPDATE entries SET content = 'as it was saveD' WHERE id = $1", saved.id)
    )
    assert [(each.entry, each.what) for each in await storage.scrub.check_all()] == [(saved.id, "entry")]
    assert storage.scrub.failures == 1
