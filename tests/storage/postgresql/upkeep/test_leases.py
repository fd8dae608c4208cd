"""Of several daemons one does the background work, and another takes over when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentctx.storage.postgresql.driver import Server
from agentctx.storage.postgresql.engine import PostgresqlStorage
from agentctx.storage.postgresql.upkeep import leases
from tests.storage.conformance import save
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


async def test_one_daemon_scrubs_and_the_next_continues_where_it_ended(
    storage: PostgresqlStorage, other: PostgresqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx.storage.postgresql.upkeep.scrub.ROWS_A_SLICE", 2)
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
