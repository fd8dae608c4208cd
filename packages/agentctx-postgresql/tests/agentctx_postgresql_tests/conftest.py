"""One server per test process, one database per test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from agentctx_postgresql_tests.server import RunningServer, running_server, why_unavailable
from agentctx_testing.drafts import ManualClock

HERE = Path(__file__).parent
CROWDS = ("[300]", "[400]")
_numbers = count(1)
TEMPLATE = "agentctx_template"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark crowd tests slow: they need hundreds of saves, and the SQLite engine covers the same paths."""
    for item in items:
        if item.path.parent == HERE and item.name.endswith(CROWDS):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """A server that does not wait for the disk, with a template database that has the schema."""
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server() as running:
        running.sql(f"CREATE DATABASE {TEMPLATE}")
        running.sql("CREATE EXTENSION vector", TEMPLATE)
        asyncio.run(_migrate(running.url(TEMPLATE)))
        yield running


async def _migrate(url: str) -> None:
    import asyncpg

    from agentctx_postgresql import migrate

    connection = await asyncpg.connect(url)
    try:
        await migrate.migrate(connection, migrate.load_schema())
    finally:
        await connection.close()


@pytest.fixture
def database(server: RunningServer) -> Iterator[str]:
    """The URL of an empty database with the schema."""
    name = f"test_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    yield server.url(name)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(database: str, clock: ManualClock) -> AsyncIterator[object]:
    from agentctx_postgresql.driver import Server
    from agentctx_postgresql.engine import PostgresqlStorage

    opened = await PostgresqlStorage.open(Server(url=database), daemon="a", clock=clock, server_clock=clock)
    yield opened
    await opened.close()
