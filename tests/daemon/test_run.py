"""The daemon's life, in the test's event loop."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agentctx.cli.backup import restore
from agentctx.config.schema import Settings
from agentctx.daemon import run as run_module
from agentctx.daemon.build import Core
from agentctx.daemon.run import drain, run, serve
from agentctx.errors import DatabaseMissing
from agentctx.server.http_server import HttpServer

pytestmark = pytest.mark.usefixtures("logging_as_before", "own_state_home")


def settings_in(folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "data_dir": folder / "data",
            "socket": folder / "a.sock",
            "embedding": {"provider": "none"},
        }
    )


async def test_it_stops_on_request_and_leaves_no_socket(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    await run(settings_in(tmp_path), stop=stop)
    assert not (tmp_path / "a.sock").exists()
    assert (tmp_path / "data" / "agentctx.db").exists()


@pytest.mark.parametrize(("requests_s", "left_s"), [(7, 3.0), (12, 0.0)])
async def test_the_last_writes_get_the_time_that_requests_left(
    requests_s: float, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    now, given = loop.time(), []
    monkeypatch.setattr(loop, "time", lambda: now)

    async def stop_server() -> None:
        nonlocal now
        now += requests_s

    async def stop_part(timeout_s: float) -> None:
        given.append(round(timeout_s, 6))

    part = SimpleNamespace(stop=stop_part)
    core = cast("Core", SimpleNamespace(receipts=part, audit=part, lanes=part))
    server = cast("HttpServer", SimpleNamespace(stop=stop_server))
    await drain(core, [server], [], 10)
    assert given == [left_s] * 3


async def test_a_failed_background_task_ends_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run_module, "maintain", fail)
    with pytest.raises(ExceptionGroup) as caught:
        await run(settings_in(tmp_path), stop=asyncio.Event())
    assert caught.group_contains(RuntimeError, match="a bug")
    assert not (tmp_path / "a.sock").exists()


def test_a_daemon_with_a_failed_task_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run_module, "maintain", fail)
    monkeypatch.setenv("AGENTCTX_EMBEDDING__PROVIDER", "none")
    assert serve(None, tmp_path / "data", tmp_path / "a.sock") == 1


def test_a_newer_schema_is_refused_with_78_and_left_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import closing

    from agentctx.storage.file.driver import open_connection

    monkeypatch.setenv("AGENTCTX_EMBEDDING__PROVIDER", "none")
    stop = asyncio.Event()
    stop.set()
    asyncio.run(run(settings_in(tmp_path), stop=stop))
    database = tmp_path / "data" / "agentctx.db"
    with closing(open_connection(database)) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 'x', 0)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = database.read_bytes()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert serve(None, tmp_path / "data", tmp_path / "a.sock") == 78
        said = manager.recv(4_096).decode()
    assert said.startswith("STATUS=The database has schema version 9999")
    assert database.read_bytes() == before


async def test_a_missing_database_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    await run(settings_in(tmp_path), stop=stop)
    shutil.rmtree(tmp_path / "data")
    for _ in range(2):
        with pytest.raises(DatabaseMissing):
            await run(settings_in(tmp_path), stop=stop)
        assert not (tmp_path / "data").exists()


def test_a_removed_database_ends_the_daemon_with_78_and_one_command_restores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTCTX_EMBEDDING__PROVIDER", "none")
    data_dir, given = tmp_path / "data", (None, tmp_path / "data", tmp_path / "a.sock")
    database = data_dir / "agentctx.db"

    async def remove(*_: object, **__: object) -> None:
        await asyncio.to_thread(database.unlink)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "maintain", remove)
        assert serve(*given) == 78
    assert serve(*given) == 78
    (copy,) = data_dir.glob("agentctx.db.rescued-*Z")
    said = capsys.readouterr().err
    assert said.count(f"agentctx restore {copy} --data-dir {data_dir}") >= 2
    restore(copy, data_dir=data_dir)
    assert not copy.exists()
    assert stopped_at_once(settings_in(tmp_path))


def stopped_at_once(settings: Settings) -> bool:
    """Return whether a daemon starts and stops."""
    stop = asyncio.Event()
    stop.set()
    asyncio.run(run(settings, stop=stop))
    return True
