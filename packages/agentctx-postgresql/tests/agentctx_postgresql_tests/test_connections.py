"""A server that disappears, drops connections, refuses writes, or is misconfigured."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agentctx.errors import ConfigInvalid, DriverUnsuitable, SchemaTooNew, SchemaTooOld, StorageFailed
from agentctx_postgresql import driver, migrate
from agentctx_postgresql.driver import Connection, Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.clients import (
    Clients,
    opened,
    save,
    save_when_possible,
    stored_ids,
    wait_until_refused,
)
from agentctx_postgresql_tests.server import (
    GUARDED,
    USER,
    RunningServer,
    running_server,
    why_unavailable,
)
from agentctx_testing.drafts import ALL

WAIT_S = 60
PASSWORD = "hush"  # noqa: S105 - for a server that exists only during the tests


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresqlStorage]:
    storage = await opened(database)
    yield storage
    await storage.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[RunningServer]:
    """A server for these tests only, which waits for its disk and may be killed."""
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server(durable=True) as server:
        server.sql("CREATE EXTENSION vector")
        yield server


TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agentctx'"


async def test_terminated_backends_lose_and_duplicate_no_save(
    own_server: RunningServer,
) -> None:
    storage = await opened(own_server.url())
    clients = Clients(storage, 8)
    try:
        before = set(await stored_ids(storage))
        for _ in range(4):
            await clients.save_more(10)
            await asyncio.to_thread(own_server.sql, TERMINATE)
        await clients.save_more(10)
        await clients.stop()
        assert clients.refused == []
        assert set(clients.acknowledged) | before == set(await stored_ids(storage))
    finally:
        await clients.stop()
        await storage.close()


async def test_acknowledged_saves_survive_a_killed_server_and_saving_resumes(
    own_server: RunningServer,
) -> None:
    storage = await opened(own_server.url())
    clients = Clients(storage, 8)
    try:
        await clients.save_more(30)
        await asyncio.to_thread(own_server.kill)
        with pytest.raises(StorageFailed, match="does not answer"):
            await save(storage, "while it is away")
        assert storage.db.fault is not None
        await asyncio.to_thread(own_server.start)
        await clients.save_more(30)
        await clients.stop()
        assert set(clients.acknowledged) <= set(await stored_ids(storage))
        assert storage.db.fault is None
    finally:
        await clients.stop()
        await storage.close()


async def test_a_read_only_server_still_answers_and_saving_resumes(
    own_server: RunningServer,
) -> None:
    storage = await opened(own_server.url())
    try:
        entry = await save(storage, "before")

        def set_readonly(value: str) -> None:
            own_server.sql(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            own_server.sql("SELECT pg_reload_conf()")

        await asyncio.to_thread(set_readonly, "on")
        async with asyncio.timeout(WAIT_S):
            while storage.db.fault is None:  # each backend reads the settings in its own time
                with suppress(StorageFailed):
                    await save(storage, "maybe")
        with pytest.raises(StorageFailed):
            await save(storage, "refused")
        assert await storage.entries.get(entry) is not None
        await asyncio.to_thread(set_readonly, "off")
        await save_when_possible(storage, "after")
    finally:
        await storage.close()


async def test_a_restarted_server_that_refuses_logins_is_reported_as_such(own_server: RunningServer) -> None:
    storage = await opened(own_server.url())
    rules = own_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    try:
        await asyncio.to_thread(own_server.stop)
        with pytest.raises(StorageFailed, match="does not answer"):
            await save(storage, "while it is away")
        rules.write_text(f"local all all reject\n{before}")
        await asyncio.to_thread(own_server.start)
        await wait_until_refused(storage, "rejects the user")
        assert own_server.pid is not None
        rules.write_text(before)
        os.kill(own_server.pid, signal.SIGHUP)
        await save_when_possible(storage, "after")
    finally:
        rules.write_text(before)
        await storage.close()


async def running_transaction(conn: Connection) -> tuple[str, str]:
    """Return the transaction's id and a value that changes when the server crashes."""
    number, epoch = await conn.fetchrow(f"SELECT pg_current_xact_id()::text, {driver.SERVER_EPOCH}")
    return number, epoch


async def test_a_lost_reply_to_a_commit_is_looked_up(storage: PostgresqlStorage) -> None:
    """The server knows whether the transaction was committed."""
    running, epoch = await storage.db.write(running_transaction)
    assert await storage.db._was_committed(running, epoch)

    class Broken(Exception):
        pass

    kept: list[str] = []

    async def fail(conn: Connection) -> None:
        kept.append((await running_transaction(conn))[0])
        raise Broken

    with pytest.raises(Broken):
        await storage.db.write(fail)
    assert not await storage.db._was_committed(kept[0], epoch)


async def test_after_a_crash_a_reused_transaction_id_is_not_taken_for_ones_own(
    own_server: RunningServer,
) -> None:
    """The server reuses the ids of transactions that it lost in the crash."""
    storage = await opened(own_server.url())
    try:
        lost: list[str] = []

        async def never_commit(conn: Connection) -> None:
            lost.extend(await running_transaction(conn))
            await asyncio.to_thread(own_server.kill)
            await conn.execute("SELECT 1")

        with pytest.raises(StorageFailed):
            await storage.db.write(never_commit)
        await asyncio.to_thread(own_server.start)
        number, epoch = lost
        while int((await storage.db.prepare(running_transaction))[0]) < int(number):
            await save_when_possible(storage, "by another transaction")
        await save_when_possible(storage, "after")
        with pytest.raises(StorageFailed, match="may or may not have been saved"):
            await storage.db._was_committed(number, epoch)
        assert not await storage.db._was_committed(str(int(number) + 10_000), epoch)
    finally:
        await storage.close()


async def in_transaction(conn: Connection) -> bool:
    return bool(conn.is_in_transaction())


async def test_no_session_state_is_kept_through_a_pooler(database: str) -> None:
    storage = await PostgresqlStorage.open(Server(url=database, is_pooled=True), daemon="a")
    try:
        entry = await save(storage, "text")
        assert await storage.entries.get(entry) is not None
        assert await storage.db.query(in_transaction), (
            "otherwise its statements might reach different servers"
        )
        assert await storage.db.write_statement(in_transaction, in_transaction)
        assert [hit.entry for hit in (await storage.search.by_words("text", ALL, 5)).hits] == [entry]
        prepared = await storage.db.read(
            lambda conn: conn.fetchval("SELECT count(*) FROM pg_prepared_statements")
        )
        assert prepared <= 1, "only the running statement itself"
    finally:
        await storage.close()


async def test_a_lock_timeout_is_a_failed_write(storage: PostgresqlStorage) -> None:
    """Background work retries; any other exception would stop the daemon."""
    async with asyncio.TaskGroup() as tasks:
        has_lock, may_end = asyncio.Event(), asyncio.Event()

        async def hold_lock(conn: Connection) -> None:
            await conn.execute("LOCK TABLE progress")
            has_lock.set()
            await may_end.wait()

        async def wait_briefly(conn: Connection) -> None:
            await conn.execute("SET LOCAL lock_timeout = '50ms'")
            await conn.execute("LOCK TABLE progress")

        tasks.create_task(storage.db.write(hold_lock))
        await has_lock.wait()
        with pytest.raises(StorageFailed, match="took too long"):
            await storage.db.write(wait_briefly)
        may_end.set()
    assert storage.db.fault is None


async def test_a_missing_extension_is_reported_with_the_command_that_adds_it(server: RunningServer) -> None:
    server.sql("CREATE DATABASE bare")
    try:
        with pytest.raises(DriverUnsuitable) as caught:
            await opened(server.url("bare"))
        assert "CREATE EXTENSION vector" in caught.value.hint
    finally:
        server.sql("DROP DATABASE bare WITH (FORCE)")


async def test_a_server_that_acknowledges_before_commit_is_refused(
    server: RunningServer, database: str
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    server.sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(DriverUnsuitable, match="synchronous_commit"):
        await opened(database)


async def test_a_newer_schema_is_refused_and_left_alone(server: RunningServer, database: str) -> None:
    name = database.split("@/")[1].partition("?")[0]
    server.sql("INSERT INTO schema_migrations (version, name, sha256) VALUES (999, 'later', 'x')", name)
    with pytest.raises(SchemaTooNew):
        await opened(database)


async def test_a_schema_older_than_0_1_0_is_refused_and_left_alone(
    server: RunningServer, database: str
) -> None:
    name = database.split("@/")[1].partition("?")[0]
    server.sql(f"UPDATE schema_migrations SET sha256 = '{migrate._FORMER[1]}'", name)  # noqa: S608 - a constant
    server.sql("DELETE FROM schema_migrations WHERE version > 1", name)
    server.sql("INSERT INTO schema_migrations (version, name, sha256) VALUES (2, 'x', 'y')", name)
    with pytest.raises(SchemaTooOld) as caught:
        await opened(database)
    assert "git+file://$PWD@v0.1.0 agentctx migrate" in caught.value.hint
    assert server.sql("SELECT version FROM schema_migrations", name) == "1\n2"


async def test_a_later_migration_is_applied_once(database: str) -> None:
    """Also after 0.1.0, whose record is replaced first."""
    files = [*migrate.load_schema()[:1], migrate.SchemaFile(2, "more", "CREATE TABLE more (x integer)")]
    import asyncpg

    connection = await asyncpg.connect(database)
    try:
        await connection.execute("DELETE FROM schema_migrations")
        for version, sha256 in migrate._FORMER.items():
            await connection.execute("INSERT INTO schema_migrations VALUES ($1, 'x', $2)", version, sha256)
        await migrate.require_current(connection, files[:1])
        assert await migrate.migrate(connection, files) == [2]
        assert await migrate.applied_schema(connection) == {file.version: file.sha256 for file in files}
        assert await migrate.migrate(connection, files) == []
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://a@/b?host=/nonexistent", "FileNotFoundError"),
        ("postgresql://a@127.0.0.1:1/b?sslmode=disable", "ConnectionRefusedError"),
    ],
)
async def test_a_missing_server_is_reported_at_the_start(url: str, reason: str) -> None:
    with pytest.raises(StorageFailed, match=reason) as caught:
        await opened(url)
    assert "storage.url" in caught.value.hint


async def test_a_missing_database_is_reported_with_the_command_that_creates_it(
    server: RunningServer,
) -> None:
    with pytest.raises(ConfigInvalid, match="does not have the database") as caught:
        await opened(server.url("nowhere"))
    assert "createdb" in caught.value.hint


@pytest.fixture
def guarded(server: RunningServer, database: str) -> Iterator[str]:
    """The URL of a database with the schema, for a role with a password and no rights."""
    server.sql(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
    yield database.replace(f"{USER}@", f"{GUARDED}@")
    server.sql(f"DROP ROLE {GUARDED}")


@pytest.mark.parametrize("password", ["wrong-hush", None])
async def test_a_wrong_password_is_reported_but_not_shown(
    guarded: str, password: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigInvalid, match="rejects the user or the password") as caught:
        await PostgresqlStorage.open(Server(url=guarded, password=password), daemon="a")
    assert "storage.password_file" in caught.value.hint
    assert "hush" not in f"{caught.value} {caught.value.hint} {capsys.readouterr()}"


@pytest.mark.parametrize("migrates", [True, False])
async def test_a_role_without_rights_is_reported_with_the_missing_grants(
    guarded: str, migrates: bool
) -> None:
    with pytest.raises(StorageFailed, match="denies the role") as caught:
        await PostgresqlStorage.open(Server(url=guarded, password=PASSWORD), daemon="a", migrates=migrates)
    assert "grant" in caught.value.hint


async def test_a_host_that_never_replies_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CONNECT_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://a@127.0.0.1:{mute.getsockname()[1]}/b?sslmode=disable"
        async with asyncio.timeout(WAIT_S / 2):
            with pytest.raises(StorageFailed, match="does not answer") as caught:
                await opened(url)
    assert "storage.url" in caught.value.hint


async def test_an_invalid_url_parameter_is_a_configuration_error() -> None:
    with pytest.raises(ConfigInvalid, match=r"storage\.url"):
        await opened("postgresql://a@127.0.0.1:1/b?sslmode=bogus")


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="macOS lacks TCP_USER_TIMEOUT")
async def test_a_save_does_not_wait_forever_for_a_vanished_host(own_server: RunningServer) -> None:
    async def forward_to_socket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_server, to_server = await asyncio.open_unix_connection(f"{own_server.folder}/.s.PGSQL.5432")
        await asyncio.gather(relay(reader, to_server), relay(at_server, writer))

    async with await asyncio.start_server(forward_to_socket, "127.0.0.1", 0) as gate:
        port = gate.sockets[0].getsockname()[1]
        storage = await opened(f"postgresql://{USER}@127.0.0.1:{port}/postgres?sslmode=disable")
        try:
            watched = await storage.db.read(user_timeout_ms)
            assert watched == driver.KEEPALIVE_TIMEOUT_S * 1_000
        finally:
            await storage.close()


async def user_timeout_ms(conn: Any) -> int:
    peer = conn._transport.get_extra_info("socket")
    return int(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))


async def relay(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await source.read(65_536):
            target.write(some)
            await target.drain()
    target.close()


class TestServer:
    def test_tcp_uses_tls_with_a_verified_name(self) -> None:
        tls = Server(url="postgresql://a@db.example/b").arguments["ssl"]
        assert tls.check_hostname

    @pytest.mark.parametrize(
        "url", ["postgresql://a@/b?host=/run/postgresql", "postgresql://a@db.example/b?sslmode=verify-ca"]
    )
    def test_a_socket_or_an_explicit_mode_is_left_alone(self, url: str) -> None:
        assert "ssl" not in Server(url=url).arguments

    @pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
    def test_no_password_is_sent_without_tls(self, mode: str) -> None:
        server = Server(url=f"postgresql://a@db.example/b?sslmode={mode}", password="hush")
        with pytest.raises(ConfigInvalid):
            _ = server.arguments

    def test_the_password_is_not_shown(self) -> None:
        assert "hush" not in repr(Server(url="postgresql://a@h/b", password="hush"))
