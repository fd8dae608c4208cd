from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from structlog.testing import capture_logs

from agentctx.config.schema import ServerSettings
from agentctx.errors import InvalidInput, TooLarge
from agentctx.server import request_limits
from agentctx.server.peer import AHEAD_BYTES
from agentctx.server.request_limits import HeadTooLarge, LimitedBody, check_head
from tests.server.recording import RecordingService
from tests.server.running import TEST_TIMEOUT_S, parse_reply, read_reply, read_to_end, running

SOON = 0.05
"""In seconds; a deadline that the test waits for."""

SEARCH = b'{"query":"a"}'
GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
LAST_GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def post(body: bytes, *, path: bytes = b"/v1/search", more: bytes = b"Connection: close\r\n") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n%s" % (path, len(body), more, body)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


async def test_a_body_may_come_in_chunks() -> None:
    end = b"1;x=y\r\n}\r\n0\r\n\r\n"
    request = chunked(b'{"collection"', b':"a"', end=end).replace(b"/v1/search", b"/v1/entries")
    async with running() as daemon:
        assert parse_reply(await daemon.exchange(request)).status == 201


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with running() as daemon, daemon.connection() as (reader, writer):
        for byte in post(SEARCH):
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await read_reply(reader)).status == 200


async def test_http_1_0_needs_no_host_and_closes() -> None:
    async with running() as daemon:
        reply = parse_reply(await daemon.exchange(b"GET /healthz HTTP/1.0\r\n\r\n"))
    assert (reply.status, reply.body) == (200, {"status": "ok"})


async def test_a_body_is_requested_when_the_client_expects_100_continue() -> None:
    head = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n"
    async with running() as daemon, daemon.connection() as (reader, writer):
        writer.write(head)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(SEARCH)
        assert (await read_reply(reader)).status == 200


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_an_upgrade_is_refused_so_that_clients_fall_back_to_http(protocol: str) -> None:
    request = f"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    async with running() as daemon:
        reply = parse_reply(await daemon.exchange(request.encode()))
        assert await daemon.is_healthy()
    assert (reply.status, reply.code) == (426, "upgrade_refused")
    assert reply.headers["upgrade"] == "HTTP/1.1"


TWICE = ["Idempotency-Key", "X-Agentctx-Session", "X-Agentctx-Namespace", "X-Agentctx-Inject"]


@pytest.mark.parametrize("second", ["same", "other"])
@pytest.mark.parametrize("name", TWICE)
async def test_an_agentctx_header_may_appear_only_once(name: str, second: str) -> None:
    lines = f"{name}: same\r\n{name.lower()}: {second}\r\nConnection: close\r\n".encode()
    save = post(b'{"collection":"knowledge","key":"k"}', path=b"/v1/entries", more=lines)
    async with running() as daemon:
        reply = parse_reply(await daemon.exchange(save))
    assert (reply.status, reply.code) == (400, "invalid_input")
    assert f"The header {name} appears twice" in reply.body["error"]["message"]
    assert daemon.service.calls == []


# Sizes.


async def test_a_body_over_the_limit_is_413_before_it_is_sent() -> None:
    head = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n"
    async with running(max_body_bytes=1_000) as daemon:
        reply = parse_reply(await daemon.exchange(head))
        assert await daemon.is_healthy()
    assert (reply.status, reply.code) == (413, "too_large")
    assert daemon.service.calls == []


async def test_a_client_that_sends_a_large_body_anyway_gets_the_reply() -> None:
    async with running(max_body_bytes=1_000) as daemon:
        reply = await daemon.http.post("/v1/search", content=b"x" * 3_000_000)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")


async def test_a_chunked_body_is_limited() -> None:
    async with running(max_body_bytes=1_000) as daemon:
        fits = parse_reply(await daemon.exchange(chunked(b'{"query":"', b"a" * 988, b'"}')))
        too_large = parse_reply(await daemon.exchange(chunked(b'{"query":"', b"a" * 989, b'"}')))
        assert await daemon.is_healthy()
    assert (fits.status, too_large.status, too_large.code) == (200, 413, "too_large")
    assert len(daemon.service.calls) == 1


async def test_a_client_may_send_a_refused_body_to_its_end() -> None:
    async with running(max_body_bytes=100_000) as daemon, daemon.connection() as (reader, writer):
        writer.write(chunked(*[b"a" * 10_000] * 40))
        await writer.drain()
        writer.write_eof()
        assert parse_reply(await read_to_end(reader)).status == 413


async def test_trailers_are_limited() -> None:
    async with running(max_body_bytes=1_000) as daemon, daemon.connection() as (reader, writer):
        writer.write(chunked(SEARCH, end=b"0\r\n"))
        with contextlib.suppress(ConnectionError):
            for _ in range(AHEAD_BYTES // 500):
                writer.write(b"x: " + b"a" * 1_000 + b"\r\n")
                await writer.drain()
        assert await read_to_end(reader) == b""
    assert daemon.service.calls == []


async def test_a_head_over_the_limit_is_431() -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000
    async with running() as daemon:
        reply = parse_reply(await daemon.exchange(head + b"\r\n\r\n"))
        assert await daemon.is_healthy()
    assert (reply.status, reply.code) == (431, "too_large")
    assert reply.headers["connection"] == "close"


async def test_a_head_without_end_is_cut() -> None:
    async with running() as daemon, daemon.connection() as (reader, writer):
        writer.write(GET)
        await read_reply(reader)
        with contextlib.suppress(ConnectionError):
            for _ in range(3):
                writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * AHEAD_BYTES)
                await writer.drain()
        assert await read_to_end(reader) == b""
        assert await daemon.is_healthy()


async def test_many_small_headers_or_a_long_path_count_too() -> None:
    async with running() as daemon:
        headers = b"".join(b"X-%d: a\r\n" % i for i in range(2_000))
        many = await daemon.exchange(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n")
        long = await daemon.exchange(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    assert parse_reply(many).status == parse_reply(long).status == 431


def head_of(path: str = "/", version: str = "1.1", **headers: str) -> dict[str, Any]:
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "http_version": version,
        "headers": lines,
    }


def test_a_head_of_exactly_the_limit_is_accepted() -> None:
    settings = ServerSettings(max_header_bytes=20)
    check_head(head_of("/123", host="12345678"), settings)
    with pytest.raises(HeadTooLarge):
        check_head(head_of("/1234", host="12345678"), settings)


async def received(scope: dict[str, Any], *pieces: bytes, **settings: int) -> bytes:
    """Return the body of a request that is received in these pieces."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False

    async def receive() -> Message:
        return messages.pop(0)

    body, parts = LimitedBody(receive, scope, ServerSettings(**settings)), list[bytes]()
    while messages:
        parts.append((await body.receive())["body"])
    assert body.is_complete
    return b"".join(parts)


async def test_a_body_of_exactly_the_limit_is_accepted() -> None:
    assert await received(head_of(content_length="5"), b"123", b"45", max_body_bytes=5) == b"12345"
    assert await received(head_of(transfer_encoding="chunked"), b"1", b"2345", max_body_bytes=5) == b"12345"
    with pytest.raises(TooLarge):
        await received(head_of(content_length="6"), b"", max_body_bytes=5)
    with pytest.raises(TooLarge):
        await received(head_of(transfer_encoding="chunked"), b"123", b"456", max_body_bytes=5)


@pytest.mark.parametrize("path", ["/proxy/openai/v1/responses", "/t/TOKEN/proxy/anthropic/v1/messages"])
async def test_a_proxied_body_may_be_larger(path: str) -> None:
    limits = {"max_body_bytes": 5, "max_proxy_body_bytes": 6}
    assert await received(head_of(path, content_length="6"), b"123456", **limits)
    with pytest.raises(TooLarge):
        await received(head_of("/t/TOKEN/v1/search", content_length="6"), b"123456", **limits)


def test_exactly_one_host_is_required_since_http_1_1() -> None:
    check_head(head_of(version="1.0"), ServerSettings())
    with pytest.raises(InvalidInput):
        check_head(head_of(), ServerSettings())


# Deadlines.


@pytest.mark.parametrize(
    "begin",
    [b"", b"\r\n", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: a\r\n"],
    ids=["silence", "blank line", "half line", "half head"],
)
async def test_a_connection_with_an_incomplete_head_is_closed(begin: bytes) -> None:
    async with running(header_timeout_s=SOON) as daemon:
        assert await daemon.exchange(begin) == b""
        assert await daemon.is_healthy()


@pytest.mark.parametrize(
    "begin",
    [post(SEARCH, more=b"")[:-1], chunked(SEARCH, end=b""), chunked(SEARCH, end=b"0\r\n")],
    ids=["by length", "between chunks", "before the trailers"],
)
async def test_an_incomplete_body_is_408(begin: bytes) -> None:
    async with running(body_timeout_s=SOON) as daemon:
        reply = parse_reply(await daemon.exchange(begin))
        assert await daemon.is_healthy()
    assert (reply.status, reply.code) == (408, "request_timeout")
    assert "0.05 s" in reply.body["error"]["message"]
    assert reply.headers["connection"] == "close"
    assert daemon.service.calls == []


async def test_slow_sending_does_not_extend_the_deadline() -> None:
    async with running(header_timeout_s=SOON) as daemon, daemon.connection() as (reader, writer):
        reading = asyncio.create_task(read_to_end(reader))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        while not reading.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b"X: a\r\n")
                await writer.drain()
            await daemon.is_healthy()
        assert await reading == b""


async def test_a_dripping_body_is_408() -> None:
    async with running(body_timeout_s=SOON) as daemon, daemon.connection() as (reader, writer):
        reading = asyncio.create_task(read_to_end(reader))
        writer.write(post(b" " * 10_000)[:-10_000])
        while not reading.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b" ")
                await writer.drain()
            await daemon.is_healthy()
        assert parse_reply(await reading).status == 408


async def test_blank_lines_do_not_keep_an_idle_connection_open() -> None:
    async with running(header_timeout_s=SOON) as daemon, daemon.connection() as (reader, writer):
        writer.write(GET)
        await read_reply(reader)
        writer.write(b"\r\n")
        assert await read_to_end(reader) == b""


async def test_an_idle_connection_outlives_the_request_deadlines() -> None:
    async with running(header_timeout_s=SOON) as daemon, daemon.connection() as (reader, writer):
        writer.write(GET)
        await read_reply(reader)
        assert await daemon.exchange(b"") == b""  # a later connection that sends nothing
        writer.write(GET)
        assert (await read_reply(reader)).status == 200


async def test_an_idle_connection_is_closed_without_a_reply() -> None:
    async with running(keep_alive_s=SOON) as daemon, daemon.connection() as (reader, writer):
        writer.write(GET)
        await read_reply(reader)
        assert await read_to_end(reader) == b""


async def test_an_incomplete_body_that_the_handler_ignores_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler replies without reading the body, whose end never arrives."""
    head = b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc"
    monkeypatch.setattr(request_limits, "LINGER_S", SOON)
    async with running() as daemon, daemon.connection() as (reader, writer):
        writer.write(head)
        assert (await read_reply(reader)).status == 200
        assert await read_to_end(reader) == b""


async def test_no_deadline_applies_while_the_service_works() -> None:
    service = RecordingService(gate=asyncio.Event())
    assert service.gate is not None
    async with (
        running(service, header_timeout_s=SOON, body_timeout_s=SOON, keep_alive_s=SOON) as daemon,
        daemon.connection() as (reader, writer),
    ):
        writer.write(post(SEARCH, more=b"") + LAST_GET[:10])  # and half of the next request
        await service.searching.wait()
        assert await daemon.exchange(b"") == b""  # takes as long as any of the deadlines
        service.gate.set()
        assert (await read_reply(reader)).status == 200
        # Now the other half has to be complete soon.
        assert await read_to_end(reader) == b""


async def test_no_deadline_applies_while_the_handler_does_not_read() -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(3 * SOON)
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async with running(asgi=app, body_timeout_s=SOON) as daemon:
        assert parse_reply(await daemon.exchange(post(b"a" * 1_000_000))).status == 200


async def test_a_peer_that_never_reads_is_disconnected() -> None:
    block = "a" * 4_000_000
    async with running(RecordingService(block=block), body_timeout_s=SOON) as daemon:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(os.fspath(daemon.path))
            sock.sendall(post(SEARCH, path=b"/v1/context", more=b""))
            # The kernel reports a hang-up even if no event is requested.
            poll = select.poll()
            poll.register(sock, 0)
            assert await asyncio.to_thread(poll.poll, TEST_TIMEOUT_S * 1_000)
        assert await daemon.is_healthy()


async def test_many_bad_connections_do_not_affect_others() -> None:
    begins = [
        b"",
        b"GET / HT",
        post(SEARCH)[:-1],
        b"GET /healthz HTTP/1.1\r\n\r\n",
        chunked(SEARCH, end=b"z"),
    ]
    async with running(header_timeout_s=SOON, body_timeout_s=SOON) as daemon:
        async with asyncio.TaskGroup() as group:
            for begin in begins * 20:
                group.create_task(daemon.exchange(begin))
            for _ in range(20):
                group.create_task(daemon.is_healthy())
        assert await daemon.is_healthy()
    assert daemon.service.calls == []


# Several requests on one connection.


async def test_pipelined_requests_are_answered_in_order() -> None:
    saves = [
        post(b'{"collection":"knowledge","key":"%d"}' % i, path=b"/v1/entries", more=b"") for i in range(5)
    ]
    async with running() as daemon:
        raw = await daemon.exchange(b"".join(saves) + LAST_GET)
    assert raw.count(b"HTTP/1.1 201 Created") == 5
    assert raw.endswith(b'{"status":"ok"}')
    assert [call[1][0][0].key for call in daemon.service.calls] == ["0", "1", "2", "3", "4"]


PIPELINES = {
    "without bodies": GET * 499 + LAST_GET,
    "with a length": post(SEARCH, more=b"") * 499 + post(SEARCH),
    "in chunks": chunked(SEARCH).replace(b"Connection: close\r\n", b"") * 499 + chunked(SEARCH),
    "mixed": (GET + post(SEARCH, more=b"") + chunked(SEARCH).replace(b"Connection: close\r\n", b"")) * 166
    + GET
    + LAST_GET,
}


@pytest.mark.parametrize("requests", PIPELINES.values(), ids=PIPELINES)
async def test_500_pipelined_requests_are_all_answered(requests: bytes) -> None:
    async with running() as daemon:
        raw = await daemon.exchange(requests)
    assert raw.count(b"HTTP/1.1 200 OK") == 500
    assert len(daemon.service.calls) == requests.count(b"POST")


async def test_100_pipelined_requests_are_answered_in_order() -> None:
    saves = [
        post(b'{"collection":"knowledge","key":"%d"}' % i, path=b"/v1/entries", more=b"") for i in range(100)
    ]
    async with running() as daemon:
        raw = await daemon.exchange(b"".join(saves) + LAST_GET)
    assert raw.endswith(b'{"status":"ok"}')
    assert [call[1][0][0].key for call in daemon.service.calls] == [str(i) for i in range(100)]


@pytest.mark.parametrize("one", [post(SEARCH, more=b""), GET], ids=["with bodies", "without"])
async def test_the_bytes_sent_ahead_are_limited(one: bytes) -> None:
    most = 3 * AHEAD_BYTES // len(one)
    async with running() as daemon, daemon.connection() as (reader, writer):
        writer.write(one * (2 * most))
        raw = await read_to_end(reader)
        assert await daemon.is_healthy()
    assert raw.count(b"HTTP/1.1 200") < most
    assert len(daemon.service.calls) < most


async def test_a_client_that_ends_its_side_counts_as_gone() -> None:
    async with running() as daemon, daemon.connection() as (reader, writer):
        writer.write(post(SEARCH)[:-1])
        writer.write_eof()
        assert await read_to_end(reader) == b""
        assert await daemon.is_healthy()
    assert daemon.service.calls == []


async def test_a_handler_learns_that_the_peer_is_gone() -> None:
    left = asyncio.Event()

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with running(asgi=app) as daemon:
        async with daemon.connection() as (_, writer):
            writer.write(GET)
            await writer.drain()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await left.wait()


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        chunked(SEARCH, end=b"zz\r\n"),
        chunked(SEARCH, end=b"zz\r\n").replace(b"/v1/search", b"/healthz"),
    ],
    ids=["noise", "no host", "bad chunk", "bad chunk nobody reads"],
)
async def test_a_bad_request_behind_a_good_one_ends_the_connection(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    service = RecordingService()
    async with running(service) as daemon, daemon.connection() as (reader, writer):
        writer.write(post(SEARCH, more=b"") + bad + post(SEARCH))
        assert b"HTTP/1.1 400" in await read_to_end(reader)
        assert await daemon.is_healthy()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [call[0] for call in service.calls] == ["search"]


@pytest.mark.parametrize("head", [b"DELETE /v1/entries/e1", b"POST /v1/queue/retry"])
async def test_a_refused_request_does_nothing_even_if_the_route_ignores_its_body(head: bytes) -> None:
    bad = head + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    async with running() as daemon:
        assert (await daemon.exchange(bad)).startswith(b"HTTP/1.1 400")
        assert await daemon.is_healthy()
    assert daemon.service.calls == []


async def test_requests_after_a_refused_one_are_not_served() -> None:
    async with running() as daemon:
        raw = await daemon.exchange(b"GET / HTTP/1.1\r\n\r\n" + post(SEARCH))
    assert parse_reply(raw).status == 400
    assert daemon.service.calls == []


async def test_a_disconnect_with_waiting_requests_logs_no_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "uvicorn")  # as in the daemon
    service = RecordingService(gate=asyncio.Event())
    assert service.gate is not None
    with capture_logs() as logs:
        async with running(service) as daemon:
            async with daemon.connection() as (_, writer):
                writer.write(post(SEARCH, more=b"") * 3)
                await service.searching.wait()
            await daemon.is_healthy()
            service.gate.set()
    assert [call[0] for call in service.calls] == ["search"]
    assert not logs
    assert not caplog.records


@pytest.mark.parametrize("seconds", [SOON, 60.0], ids=["cut", "gone"])
async def test_a_flood_of_requests_with_unread_replies_logs_no_errors(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "uvicorn")  # as in the daemon
    service = RecordingService(block="a" * 300_000)
    with capture_logs() as logs:
        async with running(service, body_timeout_s=seconds) as daemon:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.connect(os.fspath(daemon.path))
                sock.sendall(post(SEARCH, path=b"/v1/context", more=b"") * 9)
                await daemon.is_healthy()
                if seconds == SOON:
                    poll = select.poll()
                    poll.register(sock, 0)
                    assert await asyncio.to_thread(poll.poll, TEST_TIMEOUT_S * 1_000)
            assert await daemon.is_healthy()
    assert not logs
    assert not caplog.records


async def test_a_disconnect_in_the_middle_of_a_body_leaves_no_task() -> None:
    async with running() as daemon:
        async with daemon.connection() as (_, writer):
            writer.write(post(SEARCH)[:-1])
            await daemon.is_healthy()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            while daemon.server._open.requests:
                await daemon.is_healthy()
    assert daemon.service.calls == []
