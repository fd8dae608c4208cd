"""A memory restored with pg_dump and pg_restore is unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from agentctx.storage.entries import ExportSelection
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.server import RunningServer
from agentctx_testing.drafts import assert_sound, embed, found_by_words, keyless, save, serving_space

ENTRIES = 6
OTHER_CLUSTER = """UPDATE entries SET x = '4000000000'; UPDATE erasures SET x = '4000000000'"""


@pytest.fixture
def restored(server: RunningServer) -> Iterator[str]:
    """Create an empty database; return its name."""
    server.sql("CREATE DATABASE restored")
    yield "restored"
    server.sql("DROP DATABASE restored WITH (FORCE)")


async def test_a_restored_dump_is_complete_and_can_be_exported_in_pages(
    storage: PostgresqlStorage, server: RunningServer, database: str, restored: str
) -> None:
    await serving_space(storage)
    saved = [await save(storage, keyless(f"number {number}")) for number in range(ENTRIES)]
    for each in saved:
        await embed(storage, each)
    await storage.entries.delete((await save(storage, keyless("gone"))).id)
    server.restore(server.dump(urlsplit(database).path.removeprefix("/")), restored)
    server.sql(OTHER_CLUSTER, restored)
    copy = await PostgresqlStorage.open(
        Server(url=server.url(restored)), daemon="a", server_clock=storage.clock
    )
    try:
        await assert_sound(copy)
        assert (await copy.audit.verify()).faults == 0
        assert len(await found_by_words(copy, "number")) == ENTRIES
        await save(copy, keyless("number more"))
        first = await copy.entries.export_page(ExportSelection(), after=0, limit=ENTRIES)
        assert len(first.entries) == ENTRIES
        assert first.next is not None
        second = await copy.entries.export_page(ExportSelection(), after=first.next, limit=ENTRIES)
        assert [row.entry.content for row in second.entries] == ["number more"]
    finally:
        await copy.close()
