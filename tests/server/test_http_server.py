from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import cast

import pytest
import uvicorn
from starlette.types import ASGIApp

from agentctx.config.schema import ServerSettings
from agentctx.server.http_server import HttpServer
from tests.server.recording import RecordingService
from tests.server.running import TEST_TIMEOUT_S, parse_reply, read_reply, read_to_end, running
from tests.server.test_request_limits import GET, SEARCH, post


async def test_stop_finishes_a_running_request_and_closes_idle_connections() -> None:
    service = RecordingService(gate=asyncio.Event())
    assert service.gate is not None
    async with (
        running(service) as daemon,
        daemon.connection() as (idle, idle_writer),
        daemon.connection() as (half, half_writer),
        daemon.connection() as (busy, busy_writer),
    ):
        idle_writer.write(GET)
        await read_reply(idle)
        half_writer.write(GET[:10])
        busy_writer.write(post(SEARCH, more=b""))
        await service.searching.wait()
        stopping = asyncio.create_task(daemon.server.stop())
        assert await read_to_end(idle) == b""
        assert await read_to_end(half) == b""
        with pytest.raises(OSError, match="refused"):
            await asyncio.open_unix_connection(os.fspath(daemon.path))
        assert not stopping.done()
        service.gate.set()
        reply = parse_reply(await read_to_end(busy))
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        await stopping


async def test_a_request_that_outlasts_the_shutdown_timeout_gets_an_error() -> None:
    service = RecordingService(gate=asyncio.Event())
    async with running(service, shutdown_timeout_s=0.05) as daemon, daemon.connection() as (reader, writer):
        writer.write(post(SEARCH, more=b""))
        await service.searching.wait()
        await daemon.server.stop()
        reply = parse_reply(await read_to_end(reader))
    assert (reply.status, reply.code) == (503, "unavailable")


async def test_stop_waits_for_a_request_whose_client_has_disconnected() -> None:
    service = RecordingService(gate=asyncio.Event())
    assert service.gate is not None
    async with running(service) as daemon:
        async with daemon.connection() as (_, writer):
            writer.write(post(SEARCH, more=b""))
            await service.searching.wait()
        stopping = asyncio.create_task(daemon.server.stop())
        await asyncio.wait({stopping}, timeout=0.05)
        assert not stopping.done()
        service.gate.set()
        await stopping


async def test_unread_replies_do_not_delay_the_stop() -> None:
    service = RecordingService(block="a" * 300_000)
    async with running(service, shutdown_timeout_s=60, body_timeout_s=0.05) as daemon:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(os.fspath(daemon.path))
            sock.sendall(post(SEARCH, path=b"/v1/context", more=b""))
            await daemon.is_healthy()
            async with asyncio.timeout(TEST_TIMEOUT_S):
                await daemon.server.stop()


async def test_an_incomplete_body_does_not_delay_the_stop() -> None:
    async with running(shutdown_timeout_s=0.05) as daemon, daemon.connection() as (reader, writer):
        writer.write(post(SEARCH)[:-1])
        await daemon.is_healthy()
        await daemon.server.stop()
        assert parse_reply(await read_to_end(reader)).status == 503


async def test_stop_is_idempotent() -> None:
    async with running() as daemon:
        await daemon.server.stop()
        await daemon.server.stop()


def _server() -> tuple[HttpServer, socket.socket]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind("s")
    sock.listen()
    sock.setblocking(False)
    return HttpServer(cast("ASGIApp", None), [sock], ServerSettings()), sock


async def test_a_server_stopped_before_it_serves_returns_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server, sock = _server()
    await server.stop()
    await server.serve()
    assert sock.fileno() == -1


async def test_cancelling_closes_the_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server, sock = _server()
    serving = asyncio.create_task(server.serve())
    await server.started.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert sock.fileno() == -1


async def test_signal_handlers_are_left_alone() -> None:
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    async with running():
        assert {name: signal.getsignal(name) for name in before} == before


async def test_the_server_moves_to_another_socket_and_answers_running_requests(tmp_path: Path) -> None:
    elsewhere, service = tmp_path / "b.sock", RecordingService(gate=asyncio.Event())
    assert service.gate is not None
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(elsewhere))
        listening.listen()
        listening.setblocking(False)
        async with running(service) as daemon, daemon.connection() as (reader, writer):
            writer.write(post(SEARCH, more=b""))
            await service.searching.wait()
            await daemon.server.move(listening)
            new_reader, new_writer = await asyncio.open_unix_connection(os.fspath(elsewhere))
            new_writer.write(GET)
            assert (await read_reply(new_reader)).status == 200
            new_writer.close()
            service.gate.set()
            assert (await read_reply(reader)).status == 200
            assert await read_to_end(reader) == b"", "the first socket's connections end"
            with pytest.raises(OSError, match="refused"):
                await asyncio.open_unix_connection(os.fspath(daemon.path))
            await daemon.server.stop()
            with pytest.raises(OSError, match="refused"):
                await asyncio.open_unix_connection(os.fspath(elsewhere))


async def test_an_idle_server_wakes_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[int] = []

    async def on_tick(_: uvicorn.Server, counter: int) -> bool:
        ticks.append(counter)
        return len(ticks) > 9

    monkeypatch.setattr(uvicorn.Server, "on_tick", on_tick)
    async with running() as daemon:
        assert await daemon.is_healthy()
        await daemon.server.stop()
    assert not ticks
