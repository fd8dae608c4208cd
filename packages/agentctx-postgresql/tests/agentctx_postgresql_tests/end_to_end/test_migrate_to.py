"""A memory moves to PostgreSQL and back while real daemons serve it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.cli.app import run
from agentctx.daemon.run import EXIT_CONFIG
from agentctx.errors import NotFound
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_postgresql.copy_passes import PAGE_VERSIONS
from agentctx_postgresql_tests.server import RunningServer, running_server, why_unavailable
from agentctx_testing.drafts import keyless, save
from agentctx_testing.fake_provider.serving import FakeProviderServer, running
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import ForkedCommand

WAIT_S = 60.0
BUSY = 30
"""Rounds of writing before a copy begins."""
EMBEDDING = """[embedding]
provider = "openai-compatible"
base_url = "{url}"
model = "words"
"""
LOCK = 7
"""Number of an advisory lock."""
_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server() as started:
        yield started


@pytest.fixture
def database(server: RunningServer) -> str:
    """The name of an empty database."""
    name = f"moved_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    server.sql("CREATE EXTENSION vector", name)
    return name


@pytest.fixture
async def provider() -> AsyncIterator[FakeProviderServer]:
    async with running() as started:
        yield started


MODEL_TIMEOUT_S = 30.0


class Writer:
    """Saves, updates and forgets until stopped; knows what was acknowledged last."""

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.gone: list[str] = []
        self._is_busy = threading.Event()
        self._is_stopped = threading.Event()

    @contextmanager
    def writing(self, client: Client) -> Iterator[None]:
        """Write in a thread during the block; the first write is done when it starts."""
        self._is_busy.clear()
        self._is_stopped.clear()
        thread = threading.Thread(target=self._write, args=(client,))
        thread.start()
        try:
            assert self._is_busy.wait(WAIT_S)
            yield
        finally:
            self._is_stopped.set()
            thread.join(WAIT_S)
        assert not thread.is_alive()

    def _write(self, client: Client) -> None:
        for number in count():
            if self._is_stopped.is_set():
                return
            text = f"Fact {number} was saved meanwhile."
            self.contents[client.save_observation("s", text).id] = text
            self.contents[client.save_knowledge(f"key {number % 5}", text).id] = text
            if number % 3 == 0:
                self.forget(client)
            if number == BUSY:
                self._is_busy.set()

    def forget(self, client: Client) -> None:
        """Forget the oldest entry."""
        entry = next(iter(self.contents))
        client.forget(entry)
        del self.contents[entry]
        self.gone.append(entry)

    def check(self, client: Client) -> None:
        """Check that everything acknowledged is there, and that nothing has to be embedded."""
        listed: dict[str, str] = {}
        cursor = None
        while True:
            page = client.list(limit=100, cursor=cursor)
            listed |= {entry.id: entry.content for entry in page.entries}
            if (cursor := page.next) is None:
                break
        assert listed == self.contents
        for entry in self.gone:
            with pytest.raises(NotFound):
                client.get(entry)
        assert client.status().queue.pending == 0
        until = time.monotonic() + MODEL_TIMEOUT_S
        while (found := client.search("What was saved meanwhile?")).degraded and time.monotonic() < until:
            pass  # a daemon is ready before its model has answered
        assert (found.degraded, found.results[0].distance is not None) == (None, True)


def move(writer: Writer, daemon: DaemonProcess, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Copy a memory while its daemon runs and, after a last change, without it."""
    migrate = ["migrate", "--data-dir", str(daemon.data_dir), "--to", to]
    with daemon.client() as client:
        with writer.writing(client):
            assert run(migrate) == 1
            assert "not finished  a daemon uses the memory" in capsys.readouterr().out
        writer.forget(client)
        client.drain()
    assert daemon.stop() == 0
    assert run(migrate) == 0
    assert "verified" in capsys.readouterr().out


async def test_there_and_back_while_daemons_write(
    make_daemon: Callable[..., DaemonProcess],
    server: RunningServer,
    database: str,
    provider: FakeProviderServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = server.url(database)
    embedding = EMBEDDING.format(url=provider.base_url("openai-compatible"))
    configs = {"first": embedding, "shared": f'{embedding}[storage]\nurl = "{url}"\n', "last": embedding}
    first, shared, last = (make_daemon(tmp_path / name, config=configs[name]) for name in configs)
    writer = Writer()

    def start_and_check(daemon: DaemonProcess) -> None:
        with daemon.start().client() as client:
            writer.check(client)

    def embedded_again() -> list[bytes]:
        return [seen.body for seen in provider.requests if b"Fact" in seen.body]

    await asyncio.to_thread(first.start)
    await asyncio.to_thread(move, writer, first, url, capsys)
    assert embedded_again() != []
    provider.reset()
    await asyncio.to_thread(start_and_check, shared)
    assert embedded_again() == []

    with monkeypatch.context() as patch:
        patch.setenv("AGENTCTX_STORAGE__URL", url)
        await asyncio.to_thread(move, writer, shared, str(last.data_dir / DATABASE_NAME), capsys)
    provider.reset()
    await asyncio.to_thread(start_and_check, last)
    assert embedded_again() == []


async def test_a_killed_copy_is_resumed_and_no_daemon_uses_it_before(
    make_daemon: Callable[..., DaemonProcess],
    server: RunningServer,
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import asyncpg

    folder, url = tmp_path / "data", server.url(database)
    folder.mkdir()
    versions = PAGE_VERSIONS + 10
    storage = await SqliteStorage.open(folder / DATABASE_NAME)
    await asyncio.gather(*(save(storage, keyless(f"Entry {number}.")) for number in range(versions)))
    await storage.close()

    def migrated(*args: str) -> int:
        return run(["migrate", "--data-dir", str(folder), *args])

    with monkeypatch.context() as patch:
        patch.setenv("AGENTCTX_STORAGE__URL", url)
        assert await asyncio.to_thread(migrated) == 0, "it creates the tables"
    for statement in (
        f"""CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_advisory_xact_lock({LOCK}); RETURN NEW; END'""",
        f"""CREATE TRIGGER holding BEFORE INSERT ON entries FOR EACH ROW
            WHEN (NEW.content = 'Entry {versions - 1}.') EXECUTE FUNCTION hold()""",
    ):
        server.sql(statement, database)
    blocker = await asyncpg.connect(url)
    await blocker.execute(f"SELECT pg_advisory_lock({LOCK})")
    copy = ForkedCommand(["migrate", "--data-dir", str(folder), "--to", url], dict(os.environ))
    await asyncio.to_thread(wait_until_it_waits, server)
    os.kill(copy.pid, signal.SIGKILL)
    assert await asyncio.to_thread(copy.wait, WAIT_S) == -signal.SIGKILL
    copy.stderr.close()
    await blocker.close()
    server.sql("DROP TRIGGER holding ON entries", database)
    assert server.sql("SELECT count(*) FROM entries", database) == str(PAGE_VERSIONS)

    daemon = make_daemon(tmp_path / "one", config=f'[storage]\nurl = "{url}"\n')
    assert await asyncio.to_thread(daemon.run_to_exit) == EXIT_CONFIG
    (line,) = (line for line in daemon.log if line["event"] == "cannot_start")
    assert "incomplete copy" in line["problem"]
    assert "agentctx migrate --to" in line["hint"]

    capsys.readouterr()
    assert await asyncio.to_thread(migrated, "--to", url) == 0
    out = capsys.readouterr().out
    assert f"copied  versions {versions - PAGE_VERSIONS};" in out
    assert "verified" in out


def wait_until_it_waits(server: RunningServer) -> None:
    deadline = time.monotonic() + WAIT_S
    while server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "0":
        assert time.monotonic() < deadline
        time.sleep(0.05)
