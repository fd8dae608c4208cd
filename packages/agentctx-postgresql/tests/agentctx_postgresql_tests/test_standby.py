"""A standby that takes over when the primary dies has every acknowledged save."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from agentctx.errors import StorageFailed
from agentctx_postgresql_tests.clients import Clients, opened, save, stored_ids
from agentctx_postgresql_tests.server import (
    USER,
    RunningServer,
    running_server,
    running_standby,
    why_unavailable,
)
from agentctx_testing.drafts import assert_sound

WAIT_S = 60
STANDBY = "second"
IS_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
IS_STREAMING = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"


@pytest.fixture
def primary() -> Iterator[RunningServer]:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server(durable=True) as server:
        server.sql("CREATE EXTENSION vector")
        yield server


@pytest.fixture
def standby(primary: RunningServer) -> Iterator[RunningServer]:
    with running_standby(primary, STANDBY) as server:
        yield server


def url_of(*servers: RunningServer) -> str:
    return f"postgresql://{USER}@/postgres?host={','.join(quote(str(each.folder)) for each in servers)}"


async def wait_until(server: RunningServer, condition: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while await asyncio.to_thread(server.sql, condition) != "1":  # noqa: ASYNC110 - the server has no event
            await asyncio.sleep(0.05)


async def test_an_asynchronous_standby_causes_a_warning_and_a_synchronous_one_loses_nothing(
    primary: RunningServer, standby: RunningServer
) -> None:
    await wait_until(primary, IS_STREAMING)
    both = url_of(primary, standby)
    daemons = [await opened(both) for _ in range(2)]
    (warning,) = (await daemons[0].stats()).warnings
    assert warning.startswith("1 standby connected and synchronous_standby_names is empty")
    primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
    primary.sql("SELECT pg_reload_conf()")
    await wait_until(primary, IS_SYNCHRONOUS)
    clients = [Clients(each, 4) for each in daemons]
    try:
        assert (await daemons[0].stats()).warnings == ()
        for each in clients:
            await each.save_more(20)
        await asyncio.to_thread(primary.kill)
        with pytest.raises(StorageFailed):
            await save(daemons[0], "while there is no primary")
        await asyncio.to_thread(standby.promote)
        for each in clients:
            await each.save_more(20)
            await each.stop()
        assert {error.code for each in clients for error in each.refused} <= {"storage_failed"}
        acknowledged = {entry for each in clients for entry in each.acknowledged}
        assert acknowledged <= set(await stored_ids(daemons[0]))
        await assert_sound(daemons[0])
        assert (await daemons[1].audit.verify()).faults == 0
    finally:
        for each in clients:
            await each.stop()
        for daemon in daemons:
            await daemon.close()


@pytest.mark.slow
async def test_an_erasure_after_a_promotion_is_noticed_despite_lower_transaction_ids(
    primary: RunningServer, standby: RunningServer
) -> None:
    """The standby lagged behind: ids of transactions that it never received are reused."""
    storage = await opened(url_of(primary, standby))
    other = await opened(url_of(primary, standby))
    announced: list[str] = []
    other.entries.on_erased(announced.extend)
    try:
        await wait_until(primary, IS_STREAMING)
        saved = await save(storage, "text")
        target = primary.sql("SELECT pg_current_wal_lsn()")
        await wait_until(standby, f"SELECT (pg_last_wal_replay_lsn() >= '{target}')::int")
        await asyncio.to_thread(standby.sql, "SELECT pg_wal_replay_pause()")
        await asyncio.to_thread(standby.stop)
        for _ in range(20):
            await save(storage, "lost")
        await other.db.erasures.poll(other.db)
        await asyncio.to_thread(primary.kill)
        await asyncio.to_thread(standby.start)
        await asyncio.to_thread(standby.promote)
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    await storage.entries.delete(saved)
                    break
                except StorageFailed:
                    await asyncio.sleep(0.05)
            while saved not in announced:  # noqa: ASYNC110 - it polls every second
                await asyncio.sleep(0.05)
    finally:
        await storage.close()
        await other.close()
