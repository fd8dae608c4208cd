import asyncio
import errno
import json
import socket
from collections.abc import Mapping
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from agentctx.client.async_transport import AsyncUnixTransport, encode_request
from agentctx.client.transport import ConnectionDropped, Reply, UnixTransport, refusal
from agentctx.errors import DaemonUnreachable, DeadlineExceeded, InvalidInput, Unavailable
from tests.client.stub_daemon import StubDaemon

Kind = type[UnixTransport] | type[AsyncUnixTransport]
both = pytest.mark.parametrize("kind", [UnixTransport, AsyncUnixTransport])


async def exchange(
    kind: Kind,
    path: Path,
    *targets: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> list[Reply]:
    """One request for each target over one transport, which is closed at the end."""
    transport = kind(path, timeout_s)
    try:
        method = "POST" if body else "GET"
        return [await awaited(transport.request(method, target, body, headers or {})) for target in targets]
    finally:
        await awaited(transport.close())


async def awaited(value: Any) -> Any:
    return await value if isawaitable(value) else value


@both
async def test_a_request_arrives_whole_and_its_answer_too(kind: Kind, daemon: StubDaemon) -> None:
    daemon.version = "9.9.9"
    daemon.answer("POST", "/v1/anything", (201, {"echo": "日本"}))

    [reply] = await exchange(kind, daemon.socket, "/v1/anything?a=1", body=b'{"x": 1}', headers={"X-Y": "z"})

    assert reply.status == 201
    assert reply.headers["x-agentctx-version"] == "9.9.9"
    assert reply.body == b'{"echo": "\\u65e5\\u672c"}'
    assert daemon.seen[0].query == {"a": ["1"]}
    assert daemon.seen[0].body == {"x": 1}
    assert daemon.seen[0].headers["x-y"] == "z"


@both
async def test_a_missing_socket_is_named_with_the_way_to_start_a_daemon(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "none.sock"

    with pytest.raises(DaemonUnreachable, match="no such socket") as caught:
        await exchange(kind, path, "/healthz")
    assert str(path) in caught.value.message
    assert "agentctx serve" in caught.value.hint


@both
async def test_a_socket_without_its_daemon_is_unreachable(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    with pytest.raises(DaemonUnreachable, match="its daemon is gone"):
        await exchange(kind, path, "/healthz")


@both
async def test_a_path_too_long_for_a_socket_is_unreachable(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="too long"):
        await exchange(kind, tmp_path / ("x" * 200), "/healthz")


@both
async def test_no_answer_in_time_is_a_deadline(kind: Kind, daemon: StubDaemon) -> None:
    daemon.silent.clear()

    with pytest.raises(DeadlineExceeded, match=r"0\.05 s") as caught:
        await exchange(kind, daemon.socket, "/healthz", timeout_s=0.05)
    assert str(daemon.socket) in caught.value.message


@both
async def test_a_closed_connection_is_told_apart_from_no_daemon(kind: Kind, daemon: StubDaemon) -> None:
    daemon.dropping = 1

    with pytest.raises(ConnectionDropped, match="without an answer"):
        await exchange(kind, daemon.socket, "/healthz")


@both
async def test_an_answer_that_is_not_http_is_a_dropped_connection(kind: Kind, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/healthz", b"SSH-2.0-OpenSSH\r\n")

    with pytest.raises(ConnectionDropped):
        await exchange(kind, daemon.socket, "/healthz")


def test_a_forbidden_socket_names_the_settings_that_share_it() -> None:
    refused = refusal(Path("/run/s"), PermissionError(errno.EACCES, "Permission denied"))

    assert isinstance(refused, DaemonUnreachable)
    assert "socket_group" in refused.hint


def test_a_full_backlog_is_not_taken_for_a_dead_daemon() -> None:
    assert isinstance(refusal(Path("/run/s"), BlockingIOError(errno.EAGAIN, "again")), Unavailable)


def test_a_line_break_cannot_begin_another_header() -> None:
    with pytest.raises(InvalidInput):
        encode_request("GET", "/", None, {"X-Y": "a\r\nX-Z: b"})


async def test_concurrent_requests_get_their_own_answers(daemon: StubDaemon) -> None:
    for number in range(8):
        daemon.answer("GET", f"/{number}", (200, {"number": number}))
    transport = AsyncUnixTransport(daemon.socket, 10.0)
    replies = await asyncio.gather(*(transport.request("GET", f"/{n % 8}", None, {}) for n in range(24)))
    await transport.close()

    assert [json.loads(reply.body)["number"] for reply in replies] == [n % 8 for n in range(24)]


async def test_a_cancelled_request_does_not_spoil_the_next(daemon: StubDaemon) -> None:
    daemon.answer("GET", "/a", (200, {"it": "a"}))
    transport = AsyncUnixTransport(daemon.socket, 10.0)
    daemon.silent.clear()
    asking = asyncio.ensure_future(transport.request("GET", "/b", None, {}))
    await asyncio.to_thread(daemon.asked.wait, 10)
    asking.cancel()
    await asyncio.wait([asking])
    daemon.silent.set()
    reply = await transport.request("GET", "/a", None, {})
    await transport.close()

    assert json.loads(reply.body) == {"it": "a"}
