"""The PostgreSQL engine: the conformance suite and what only this engine does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from agentctx.storage.ids import bucket_of
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import CommitSettings, PostgresqlStorage, durability_warnings
from agentctx_postgresql_tests.server import RunningServer
from agentctx_testing.conformance.storage import StorageConformance
from agentctx_testing.drafts import keyless


class TestPostgresqlStorage(StorageConformance):
    """Runs the suite."""


SAFE = CommitSettings()
END_SESSIONS = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{}'"


@pytest.mark.parametrize(
    "settings",
    [
        SAFE,
        replace(SAFE, synchronous_commit="remote_apply"),
        replace(SAFE, synchronous_commit="local"),
        replace(SAFE, standbys=2, synchronous_standby_names="*"),
    ],
)
def test_a_safe_server_causes_no_warning(settings: CommitSettings) -> None:
    assert durability_warnings(settings) == ()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (replace(SAFE, synchronous_commit="off"), "synchronous_commit is off"),
        (replace(SAFE, fsync=False), "fsync is off"),
        (replace(SAFE, full_page_writes=False), "full_page_writes is off"),
        (replace(SAFE, standbys=1), "1 standby connected and synchronous_standby_names is empty"),
        (replace(SAFE, standbys=2), "2 standbys connected and synchronous_standby_names is empty"),
        (
            replace(SAFE, synchronous_standby_names="*", synchronous_commit="local"),
            "synchronous_commit is local",
        ),
    ],
)
def test_each_way_to_lose_a_save_is_one_warning(settings: CommitSettings, reason: str) -> None:
    (sentence,) = durability_warnings(settings)
    assert sentence.startswith(f"{reason}: ")
    assert sentence.endswith(".")


class TestServerWithoutFsync:
    @pytest.fixture
    async def storage(self, database: str) -> AsyncIterator[PostgresqlStorage]:
        storage = await PostgresqlStorage.open(Server(url=database), daemon="a")
        yield storage
        await storage.close()

    async def test_unsafe_settings_are_in_the_status(self, storage: PostgresqlStorage) -> None:
        first, second = (await storage.stats()).warnings
        assert first.startswith("fsync is off")
        assert second.startswith("full_page_writes is off")

    async def test_unsafe_settings_are_logged_at_the_start(self, database: str) -> None:
        with capture_logs() as logs:
            storage = await PostgresqlStorage.open(Server(url=database), daemon="a")
            await storage.close()
        reasons = [line["reason"] for line in logs if line["event"] == "saves_not_safe"]
        assert len(reasons) == 2

    async def test_later_changes_are_noticed(
        self, storage: PostgresqlStorage, server: RunningServer, database: str
    ) -> None:
        name = database.split("@/")[1].partition("?")[0]
        await asyncio.to_thread(server.sql, f"ALTER DATABASE {name} SET synchronous_commit = off")
        await asyncio.to_thread(server.sql, END_SESSIONS.format(name))
        assert "synchronous_commit is off" in (await storage.stats()).warnings[0]


async def test_the_documented_expression_is_the_bucket_of_an_id(database: str) -> None:
    storage = await PostgresqlStorage.open(Server(url=database), daemon="a")
    saved = await storage.entries.save(keyless("Text."), embed=False)
    expression = "SELECT ('x' || right(id, 3))::bit(12)::int & 1023 FROM entries WHERE id = $1"
    bucket = await storage.db.query(lambda conn: conn.fetchval(expression, saved.id))
    await storage.close()
    assert bucket == bucket_of(keyless("Text.").namespace)
