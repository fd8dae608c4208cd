"""Clients and stops that a stream has to survive: HTTP/1.0, half-closed connections, empty keys, SIGTERM."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentctx.server import http_server
from agentctx_testing.fake_provider.faults import HttpFault
from tests.llm.proxy.running_proxy import LIMIT_S, QUESTION, RunningProxy, running_proxy


def request(running: RunningProxy, version: str, *, stream: bool, key: str = "Bearer k") -> bytes:
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": QUESTION}]})
    head = [
        f"POST /t/{running.token}/proxy/openai/v1/chat/completions HTTP/{version}",
        "Host: 127.0.0.1",
        f"Authorization: {key}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", body]).encode()


async def exchanged(running: RunningProxy, sent: bytes, *, half_closes: bool) -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        writer.write(sent)
        if half_closes:
            writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    return head.lower(), body


@pytest.mark.parametrize("half_closes", [False, True])
async def test_http_1_0_gets_a_stream_without_chunks(proxy: RunningProxy, half_closes: bool) -> None:
    head, body = await exchanged(proxy, request(proxy, "1.0", stream=True), half_closes=half_closes)
    assert b"transfer-encoding" not in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")
    head, body = await exchanged(proxy, request(proxy, "1.0", stream=False), half_closes=half_closes)
    assert json.loads(body)["choices"]


async def test_a_client_that_half_closes_gets_its_stream(proxy: RunningProxy) -> None:
    head, body = await exchanged(proxy, request(proxy, "1.1", stream=True), half_closes=True)
    assert b"transfer-encoding: chunked" in head
    assert body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("key", ["Bearer ", "Bearer", ""])
async def test_an_empty_key_reaches_the_vendor(proxy: RunningProxy, key: str) -> None:
    head, _ = await exchanged(proxy, request(proxy, "1.1", stream=False, key=key), half_closes=True)
    assert head.startswith(b"http/1.1 401")
    assert proxy.last.header("authorization") == key.strip()


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("ends", [True, False])
async def test_a_stop_lets_a_begun_stream_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], ends: bool
) -> None:
    monkeypatch.setattr(http_server, "STREAM_DRAIN_S", LIMIT_S if ends else 0.1)
    async with running_proxy(tmp_path, server={"shutdown_timeout_s": 0.1}) as running:
        running.vendor.script(HttpFault(kind="slow_pieces"))
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(request(running, "1.1", stream=True))
        await running.vendor.wait_until_held()
        running.vendor.release()
        await reader.readuntil(b"data: ")
        running.stop.set()
        if ends:
            reading = asyncio.create_task(reader.read())
            while not reading.done():
                running.vendor.release()
                await asyncio.wait({reading}, timeout=0.05)
            received = reading.result()
        else:
            received = await reader.read()
        assert received.endswith(b"0\r\n\r\n") == ends
        writer.close()
    log = capfd.readouterr()
    assert "Traceback" not in log.out + log.err
