"""One suite for both transports, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import errno
import grp
import itertools
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.client.transport import BacklogFull, ConnectionDropped, HttpReply, NotListening, refusal
from agentctx.client.unix_transport import UnixTransport
from agentctx.config.paths import default_socket
from agentctx.errors import DaemonUnreachable, DeadlineExceeded, InvalidInput, Unavailable
from tests.client.stub_daemon import StubDaemon

TIMEOUT_S = 10.0

Exchange = Callable[..., Awaitable[HttpReply]]


async def resolved(value: Any) -> Any:
    return await value if isawaitable(value) else value


@pytest.fixture(params=[UnixTransport, AsyncUnixTransport])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def exchange(kind: Any, daemon: StubDaemon) -> AsyncIterator[Exchange]:
    """`await exchange("/target")` sends a request to the stub."""
    transport = kind(daemon.socket, TIMEOUT_S)

    async def send(
        target: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        method = "GET" if body is None else "POST"
        return await resolved(transport.request(method, target, body, headers or {}, timeout_s))

    yield send
    await resolved(transport.close())


async def request_once(kind: Any, path: Path) -> None:
    transport = kind(path, TIMEOUT_S)
    try:
        await resolved(transport.request("GET", "/healthz", None, {}))
    finally:
        await resolved(transport.close())


async def test_requests_and_replies_arrive_completely(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.version = "9.9.9"
    daemon.answer("POST", "/v1/anything", (201, {"echo": "日本"}))

    reply = await exchange("/v1/anything?a=1", body=b'{"x": 1}', headers={"X-Y": "z"})

    assert reply.status == 201
    assert reply.headers["x-agentctx-version"] == "9.9.9"
    assert reply.body == b'{"echo": "\\u65e5\\u672c"}'
    assert daemon.seen[0].query == {"a": ["1"]}
    assert daemon.seen[0].body == {"x": 1}
    assert daemon.seen[0].headers["x-y"] == "z"


async def test_long_bodies_and_replies_arrive_completely(exchange: Exchange, daemon: StubDaemon) -> None:
    text = "0123456789" * 100_000
    daemon.answer("POST", "/v1/anything", lambda seen: (200, seen.body))

    reply = await exchange("/v1/anything", body=json.dumps({"text": text}).encode())

    assert json.loads(reply.body) == {"text": text}


async def test_one_connection_serves_several_requests(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/a", (200, {"it": "a"}))
    daemon.answer("GET", "/b", (404, {"it": "b"}))

    replies = [await exchange(target) for target in ("/a", "/b", "/a")]

    assert [json.loads(reply.body)["it"] for reply in replies] == ["a", "b", "a"]
    assert len(daemon.connections) == 1


async def test_a_reply_that_closes_its_connection_is_followed_by_a_new_connection(
    exchange: Exchange, daemon: StubDaemon
) -> None:
    closing = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    daemon.answer("GET", "/a", closing)

    assert [(await exchange("/a")).body for _ in range(2)] == [b"{}", b"{}"]
    assert len(daemon.connections) == 2


async def test_a_chunked_reply_is_read_to_its_end(exchange: Exchange, daemon: StubDaemon) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    daemon.answer("GET", "/a", iter([head, b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"]))

    assert (await exchange("/a")).body == b"onetwo"


async def test_a_connection_that_ended_while_idle_is_replaced_before_sending(
    exchange: Exchange, daemon: StubDaemon
) -> None:
    daemon.answer("GET", "/a", (200, {}))
    await exchange("/a")
    daemon.hang_up()

    assert (await exchange("/a")).status == 200
    assert len(daemon.connections) == 2


async def test_a_missing_socket_is_reported_with_how_to_start_a_daemon(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "none.sock"

    with pytest.raises(NotListening, match="does not exist") as caught:
        await request_once(kind, path)
    assert str(path) in caught.value.message
    assert "agentctx serve" in caught.value.hint


async def test_a_stale_socket_is_not_listening(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    with pytest.raises(NotListening, match="its daemon is gone"):
        await request_once(kind, path)


async def test_a_path_that_is_not_a_socket_is_reported_as_that(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    path.touch()

    with pytest.raises(DaemonUnreachable, match="it is not a socket") as caught:
        await request_once(kind, path)
    assert not isinstance(caught.value, NotListening)  # waiting for a daemon there is useless


async def test_a_path_too_long_for_a_socket_is_unreachable(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="too long") as caught:
        await request_once(kind, tmp_path / ("x" * 200))
    assert not isinstance(caught.value, NotListening)  # no daemon can ever listen there
    assert "shorter" in str(caught.value.hint)


async def test_a_missing_reply_times_out(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.silent.clear()

    with pytest.raises(DeadlineExceeded, match=r"0\.05 s") as caught:
        await exchange("/a", timeout_s=0.05)
    assert str(daemon.socket) in caught.value.message


async def test_an_endless_reply_times_out(exchange: Exchange, daemon: StubDaemon) -> None:
    endless = itertools.chain(
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"], itertools.repeat(b"x")
    )
    daemon.answer("GET", "/a", endless)

    with pytest.raises(DeadlineExceeded):
        await exchange("/a", timeout_s=0.05)


async def test_a_dropped_connection_is_not_a_missing_daemon(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.dropping = 1

    with pytest.raises(ConnectionDropped, match="without an answer"):
        await exchange("/a")


async def test_an_incomplete_reply_is_a_dropped_connection(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/a", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")

    with pytest.raises(ConnectionDropped):
        await exchange("/a")


async def test_a_reply_that_is_not_http_is_a_dropped_connection(
    exchange: Exchange, daemon: StubDaemon
) -> None:
    daemon.answer("GET", "/a", b"SSH-2.0-OpenSSH\r\n")

    with pytest.raises(ConnectionDropped):
        await exchange("/a")


async def test_a_refusal_sent_before_the_whole_body_is_read(exchange: Exchange, daemon: StubDaemon) -> None:
    daemon.hasty = True
    daemon.answer("POST", "/a", (413, {"error": "too large"}))

    reply = await exchange("/a", body=b"x" * 4_000_000)

    assert reply.status == 413


async def test_line_breaks_in_headers_are_refused(exchange: Exchange, daemon: StubDaemon) -> None:
    with pytest.raises(InvalidInput):
        await exchange("/a", headers={"X-Y": "a\r\nX-Z: b"})
    assert not daemon.seen


async def test_a_closed_transport_raises(kind: Any, daemon: StubDaemon) -> None:
    transport = kind(daemon.socket)
    await resolved(transport.close())

    with pytest.raises(DaemonUnreachable, match="closed"):
        await resolved(transport.request("GET", "/a", None, {}))
    assert not daemon.connections


def test_concurrent_threads_get_their_own_replies(daemon: StubDaemon) -> None:
    for number in range(8):
        daemon.answer("GET", f"/{number}", (200, {"number": number}))
    transport = UnixTransport(daemon.socket)

    def ask(number: int) -> int:
        return int(json.loads(transport.request("GET", f"/{number % 8}", None, {}).body)["number"])

    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(ask, range(64)))
    transport.close()

    assert numbers == [n % 8 for n in range(64)]


async def test_concurrent_tasks_get_their_own_replies(daemon: StubDaemon) -> None:
    for number in range(8):
        daemon.answer("GET", f"/{number}", (200, {"number": number}))
    transport = AsyncUnixTransport(daemon.socket)
    replies = await asyncio.gather(*(transport.request("GET", f"/{n % 8}", None, {}) for n in range(24)))
    await transport.close()

    assert [json.loads(reply.body)["number"] for reply in replies] == [n % 8 for n in range(24)]


async def test_a_cancelled_request_does_not_affect_the_next(daemon: StubDaemon) -> None:
    daemon.answer("GET", "/a", (200, {"it": "a"}))
    transport = AsyncUnixTransport(daemon.socket)
    daemon.silent.clear()
    asking = asyncio.ensure_future(transport.request("GET", "/b", None, {}))
    await asyncio.to_thread(daemon.asked.wait, 10)
    asking.cancel()
    await asyncio.wait([asking])
    daemon.silent.set()
    reply = await transport.request("GET", "/a", None, {})
    await transport.close()

    assert json.loads(reply.body) == {"it": "a"}


def test_a_forbidden_socket_names_the_settings_that_share_it() -> None:
    refused = refusal(Path("/run/s"), PermissionError(errno.EACCES, "Permission denied"))

    assert isinstance(refused, DaemonUnreachable)
    assert not isinstance(refused, NotListening)
    assert "socket_group" in refused.hint


def test_a_full_backlog_is_not_taken_for_a_missing_daemon() -> None:
    refused = refusal(Path("/run/s"), BlockingIOError(errno.EAGAIN, "again"))

    assert isinstance(refused, BacklogFull)
    assert isinstance(refused, Unavailable)


@pytest.fixture
def machine_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the machine's daemon, which this user may not enter."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr("agentctx.client.transport.SYSTEM_SOCKET", folder / "agentctx.sock")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.delenv("AGENTCTX_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "user"))
    return folder


def test_a_user_outside_the_group_is_told_its_name(machine_folder: Path) -> None:
    refused = refusal(default_socket(), FileNotFoundError(errno.ENOENT, "none"))
    group = grp.getgrgid(machine_folder.stat().st_gid).gr_name
    assert f"you may not enter {machine_folder}" in refused.message
    assert f"the group '{group}'" in (refused.hint or "")
    assert not isinstance(refused, NotListening), "waiting would not help"


@pytest.mark.usefixtures("machine_folder")
def test_an_explicit_socket_is_the_one_reported() -> None:
    refused = refusal(Path("/run/other"), FileNotFoundError(errno.ENOENT, "none"))
    assert "/run/other" in refused.message
