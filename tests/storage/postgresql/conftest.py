"""One server for each process of the tests, one database for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.storage.drafts import HandClock
from tests.storage.postgresql.server import RunningServer, running_server, why_unavailable

HERE = Path(__file__).parent
CROWDS = ("[300]", "[400]")
_numbers = count(1)
TEMPLATE = "agentctx_template"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hundreds of saves, for the sake of paths that the SQLite engine has: they take longest here."""
    for item in items:
        if item.path.parent == HERE and item.name.endswith(CROWDS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """A server that does not wait for the disk, with a database that has the schema."""
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server() as running:
        running.sql(f"CREATE DATABASE {TEMPLATE}")
        running.sql("CREATE EXTENSION vector", TEMPLATE)
        asyncio.run(_migrate(running.url(TEMPLATE)))
        yield running


async def _migrate(url: str) -> None:
    import asyncpg

    from agentctx.storage.postgresql import migrate

    connection = await asyncpg.connect(url)
    try:
        await migrate.migrate(connection, migrate.load_schema())
    finally:
        await connection.close()


@pytest.fixture
def database(server: RunningServer) -> Iterator[str]:
    """The URL of a database with the schema and nothing in it."""
    name = f"test_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    yield server.url(name)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def storage(database: str, clock: HandClock) -> AsyncIterator[object]:
    from agentctx.storage.postgresql.driver import Server
    from agentctx.storage.postgresql.engine import PostgresqlStorage

    opened = await PostgresqlStorage.open(Server(url=database), daemon="a", clock=clock, server_clock=clock)
    yield opened
    await opened.close()
