"""PostgreSQL through a real pgbouncer in transaction mode."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from agentctx.errors import ConfigInvalid
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql.search import vector_search
from agentctx_postgresql.vectors import nearest_index
from agentctx_postgresql_tests.server import USER, RunningServer
from agentctx_testing.drafts import (
    ALL,
    assert_sound,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
)

WAIT_S = 60
BINARY = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(BINARY is None, reason="pgbouncer is not installed")


@pytest.fixture
def pooled(server: RunningServer, database: str) -> Iterator[str]:
    """The URL of a database behind a pooler with fewer connections than clients."""
    assert BINARY is not None
    folder = server.folder / "pooler"
    folder.mkdir()
    users = folder / "users"
    users.write_text(f'"{USER}" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={server.folder}\n[pgbouncer]\npool_mode = transaction\nauth_type = trust\n"
        f"auth_file = {users}\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
        "default_pool_size = 4\nignore_startup_parameters = extra_float_digits\n"
    )
    data = server.folder / "data"
    for path in (folder, users, config):
        shutil.chown(path, data.owner(), data.group())
    user = ["-u", data.owner()] if os.geteuid() == 0 else []
    process = subprocess.Popen([BINARY, *user, str(config)], stderr=subprocess.DEVNULL)
    name = database.split("@/")[1].partition("?")[0]
    yield f"postgresql://{USER}@/{name}?host={folder}&port=6432"
    process.send_signal(signal.SIGKILL)
    process.wait(WAIT_S)
    shutil.rmtree(folder)


async def opened(url: str, *, is_pooled: bool = True) -> PostgresqlStorage:
    """Open a storage as soon as the pooler listens."""
    folder = Path(url.partition("host=")[2].partition("&")[0])
    async with asyncio.timeout(WAIT_S):
        while not (folder / ".s.PGSQL.6432").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
    return await PostgresqlStorage.open(Server(url=url, is_pooled=is_pooled), daemon="a")


@pytest.fixture
async def storage(pooled: str) -> AsyncIterator[PostgresqlStorage]:
    storage = await opened(pooled)
    yield storage
    await storage.close()


async def test_transactions_can_share_connections(storage: PostgresqlStorage) -> None:
    await serving_space(storage)
    saved = await asyncio.gather(*(save(storage, keyless(f"number {each}")) for each in range(24)))
    for each in saved:
        await embed(storage, each)
    assert len({each.id for each in saved}) == 24
    assert await found_by_words(storage, "number") != []
    await storage.entries.delete(saved[0].id)
    async with asyncio.timeout(WAIT_S):
        while not await storage.upkeep.tidy():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.1)
    await assert_sound(storage)
    assert (await storage.audit.verify()).faults == 0


async def test_an_undeclared_pooler_is_refused_at_the_start(pooled: str) -> None:
    with pytest.raises(ConfigInvalid, match="is a pooler") as caught:
        await opened(pooled, is_pooled=False)
    assert 'storage.pooler = "transaction"' in caught.value.hint


async def test_the_index_of_a_large_namespace_answers_through_a_pooler(
    server: RunningServer, database: str, pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_index, "LARGE_NAMESPACE", 50)
    monkeypatch.setattr(nearest_index, "CACHED_S", 0.0)
    name = database.split("@/")[1].partition("?")[0]
    for plan in ("seqscan", "sort", "bitmapscan"):  # otherwise the planner ignores an index this small
        server.sql(f"ALTER DATABASE {name} SET enable_{plan} = off")
    storage = await opened(pooled)
    try:
        space = await serving_space(storage)
        for number in range(60):
            saved = await save(storage, keyless(f"text {number}"))
            await embed(storage, saved, vector(np.cos(number / 40), np.sin(number / 40)))
        exact = await storage.search.by_vector(space.id, vector(1), ALL, 50)
        assert await nearest_index.build_one(storage.db), "an index is built"
        monkeypatch.setattr(vector_search, "_OF_NAMESPACE", "not SQL")
        assert await storage.search.by_vector(space.id, vector(1), ALL, 50) == exact
    finally:
        await storage.close()
