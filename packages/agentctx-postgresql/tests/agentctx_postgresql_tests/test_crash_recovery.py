"""A server that crashes with a gigabyte of WAL to replay, while clients save."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agentctx.errors import StorageFailed
from agentctx_postgresql_tests.clients import Clients, opened, save, stored_ids
from agentctx_postgresql_tests.server import RunningServer, running_server, why_unavailable

WAL_BYTES = 1024**3
WITHOUT_CHECKPOINTS = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum": "off"}
WAL_TO_REPLAY = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)::bigint FROM pg_control_checkpoint()"
FILL = "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 100000) AS i"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def crashing() -> Iterator[RunningServer]:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server(durable=True, settings=WITHOUT_CHECKPOINTS) as server:
        server.sql("CREATE EXTENSION vector")
        yield server


def fill_wal(server: RunningServer) -> None:
    server.sql("CREATE TABLE filler (content text)")
    while int(server.sql(WAL_TO_REPLAY)) < WAL_BYTES:
        server.sql(FILL)


async def test_nothing_acknowledged_is_lost_and_saving_resumes_after_a_long_recovery(
    crashing: RunningServer,
) -> None:
    storage = await opened(crashing.url())
    clients = Clients(storage, 8)
    try:
        await asyncio.to_thread(fill_wal, crashing)
        await clients.save_more(30)
        await asyncio.to_thread(crashing.kill)
        with pytest.raises(StorageFailed, match="does not answer"):
            await save(storage, "while the server is away")
        await asyncio.to_thread(crashing.start)
        await clients.save_more(30)
        await clients.stop()
        assert {error.code for error in clients.refused} <= {"storage_failed"}
        assert set(clients.acknowledged) <= set(await stored_ids(storage))
        assert storage.db.fault is None
    finally:
        await clients.stop()
        await storage.close()
