"""Empty keys, and stops that a stream has to survive."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentctx.server import http_server
from agentctx_testing.fake_provider.faults import HttpFault
from tests.llm.proxy.running_proxy import LIMIT_S, QUESTION, RunningProxy, running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")


def request(running: RunningProxy, *, stream: bool, key: str = "Bearer k") -> bytes:
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": QUESTION}]})
    head = [
        f"POST /t/{running.token}/proxy/openai/v1/chat/completions HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        f"Authorization: {key}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", body]).encode()


@pytest.mark.parametrize("key", ["Bearer ", "Bearer", ""])
async def test_an_empty_key_reaches_the_vendor(proxy: RunningProxy, key: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request(proxy, stream=False, key=key))
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 401")
    writer.close()
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
        writer.write(request(running, stream=True))
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
