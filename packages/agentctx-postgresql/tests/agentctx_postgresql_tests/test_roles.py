"""The roles of migrations/roles.sql: what each may and may not do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import agentctx_postgresql
from agentctx.errors import StorageFailed
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage, update_schema
from agentctx_postgresql_tests.server import USER, RunningServer
from agentctx_postgresql_tests.upkeep.test_tidying import tidy_completely
from agentctx_testing.drafts import assert_sound, embed, keyless, save, serving_space

SCRIPT = Path(agentctx_postgresql.__file__).with_name("migrations") / "roles.sql"
ROLES = ("agentctx_owner", "agentctx_daemon", "agentctx_reader")


@pytest.fixture
def prepared(server: RunningServer) -> Iterator[str]:
    """The superuser's URL of a database with the roles but without a schema."""
    server.sql("CREATE DATABASE roles")
    server.sql("CREATE EXTENSION vector", "roles")
    server.sql(SCRIPT.read_text(encoding="utf-8"), "roles")
    yield server.url("roles")
    server.sql("DROP DATABASE roles WITH (FORCE)")
    for role in ROLES:
        server.sql(f"REVOKE ALL ON SCHEMA public FROM {role}; DROP OWNED BY {role}; DROP ROLE {role}")


def server_of(url: str, role: str) -> Server:
    return Server(url=url.replace(f"{USER}@", f"{role}@"))


@pytest.fixture
async def daemon(prepared: str) -> AsyncIterator[PostgresqlStorage]:
    """An engine with the daemon's role, on a schema created by the owner."""
    await update_schema(server_of(prepared, "agentctx_owner"), applies=True)
    storage = await PostgresqlStorage.open(server_of(prepared, "agentctx_daemon"), daemon="a")
    yield storage
    await storage.close()


async def test_a_daemon_can_work_on_tables_of_the_owner(
    daemon: PostgresqlStorage, server: RunningServer, prepared: str
) -> None:
    await serving_space(daemon)
    for number in range(3):
        await embed(daemon, await save(daemon, keyless(f"text {number}")))
    gone = await save(daemon, keyless("forgotten"))
    await daemon.entries.delete(gone.id)
    await tidy_completely(daemon)
    await assert_sound(daemon)
    assert (await daemon.audit.verify()).faults == 0
    owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public' AND tablename !~ '^vec_'"
    name = urlsplit(prepared).path.removeprefix("/")
    assert await asyncio.to_thread(server.sql, owners, name) == "agentctx_owner"


async def test_a_forgotten_word_leaves_an_index_that_the_daemon_does_not_own(
    daemon: PostgresqlStorage,
) -> None:
    await serving_space(daemon)
    before = await daemon.db.read(lambda conn: conn.fetchval(FILE_OF_INDEX))
    await daemon.entries.delete((await save(daemon, keyless("zyzzyva"))).id)
    await tidy_completely(daemon)
    assert await daemon.db.read(lambda conn: conn.fetchval(FILE_OF_INDEX)) != before, "the index was rebuilt"


FILE_OF_INDEX = "SELECT pg_relation_filenode('chunk_words_terms')"
FILES_OF_WORDS = "SELECT ARRAY[pg_relation_filenode('chunk_words'), pg_relation_filenode('pg_statistic')]"


async def test_a_daemon_may_rewrite_the_tables_and_their_statistics(daemon: PostgresqlStorage) -> None:
    before = await daemon.db.read(lambda conn: conn.fetchval(FILES_OF_WORDS))
    await daemon.upkeep.rewrite()
    after = await daemon.db.read(lambda conn: conn.fetchval(FILES_OF_WORDS))
    assert not set(before) & set(after)


async def test_a_daemon_may_not_change_the_schema(daemon: PostgresqlStorage) -> None:
    with pytest.raises(StorageFailed, match="denies the role"):
        await daemon.db.write(lambda conn: conn.execute("ALTER TABLE entries ADD COLUMN more int"))


async def test_a_reader_can_only_read(daemon: PostgresqlStorage, prepared: str) -> None:
    await serving_space(daemon)
    saved = await save(daemon, keyless("text"))
    await embed(daemon, saved)
    server = server_of(prepared, "agentctx_reader")
    reader = await PostgresqlStorage.open(server, daemon="r", migrates=False)
    try:
        assert (await reader.stats()).vectors == 1
        entry = await reader.entries.get(saved.id)
        assert entry is not None
        assert entry.content == "text"
        assert await reader.upkeep.check_vectors() == []
        for attempt in (save(reader, keyless("more")), reader.entries.delete(saved.id)):
            with pytest.raises(StorageFailed, match="denies the role"):
                await attempt
    finally:
        await reader.close()
