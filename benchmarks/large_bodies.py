"""How much a large body at the proxy delays other requests: pings of another process in the meantime."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx

from benchmarks.daemons import daemon_folder, started
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.timing import percentile
from benchmarks.vendor import fake_vendor

MOST_P99_MS = 50.0
_PAUSE_S = 0.005
_TIMEOUT_S = 120.0
_PATH = "http://agentctx/proxy/openai/v1/chat/completions"
_PING = b"GET /healthz HTTP/1.1\r\nHost: agentctx\r\n\r\n"
_MEMORY = "The web service is deployed with make release."
_QUESTION = "How is the web service deployed?"
_PROCESSES = multiprocessing.get_context("forkserver")


async def measure(options: Options) -> list[Figure]:
    figures = []
    with fake_vendor() as vendor, daemon_folder("fake", _config(vendor)) as folder:
        async with started(folder) as client:
            await client.save_knowledge("deploy", _MEMORY, wait="embedded")
            idle = await _idle_ms(client.socket, options.size(5, 1))
            for name, body in _bodies():
                figures += await _figures(client.socket, name, body, options.size(20, 3), idle)
    return figures


def _bodies() -> Iterator[tuple[str, bytes]]:
    asked = {"role": "user", "content": _QUESTION}
    words = "Some words, and [more] of them. " * 12
    turns = [{"role": role, "content": [{"type": "text", "text": words}]} for role in ("user", "assistant")]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 12_000_000}}
    yield "600,000 messages", _body([{"role": "user", "content": "hi"}] * 600_000)
    yield "8,000 messages", _body([*turns * 4_000, asked])
    yield "1,000 messages", _body([*turns * 500, asked])
    yield "a picture", _body([{"role": "user", "content": [{"type": "text", "text": _QUESTION}, picture]}])


def _body(messages: list[dict[str, Any]]) -> bytes:
    return json.dumps({"model": "gpt-5.4-mini", "messages": messages}).encode()


async def _figures(path: Path, name: str, body: bytes, calls: int, idle: list[float]) -> list[Figure]:
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path)), headers=_KEY, timeout=_TIMEOUT_S
    ) as client:
        injected, began = 0, time.perf_counter()
        with _pinging(path) as pings:
            for _ in range(calls):
                reply = await client.post(_PATH, content=body)
                reply.raise_for_status()
                injected += "x-agentctx-injection" in reply.headers
        took = (time.perf_counter() - began) * 1_000 / calls
    name = f"{name}, {len(body) / 1e6:.1f} MB"
    bar = at_most(MOST_P99_MS, "a twentieth of a second")
    base = percentile(idle, 99)
    return [
        Figure(
            name=f"{name}: ping meanwhile, p99",
            value=percentile(pings, 99),
            unit="ms",
            baseline=base,
            bar=bar,
        ),
        Figure(name=f"{name}: ping meanwhile, slowest", value=max(pings), unit="ms", baseline=max(idle)),
        Figure(name=f"{name}: per call", value=took, unit="ms"),
        Figure(name=f"{name}: calls with context", value=injected, unit=f"of {calls}"),
    ]


async def _idle_ms(path: Path, seconds: float) -> list[float]:
    with _pinging(path) as pings:
        await asyncio.sleep(seconds)
    return pings


@contextmanager
def _pinging(path: Path) -> Iterator[list[float]]:
    """Ping from another process during the block; afterwards the list has the milliseconds of each ping."""
    pings: list[float] = []
    end = _PROCESSES.Event()
    receiving, sending = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_ping, args=(path, sending, end))
    process.start()
    receiving.recv()
    try:
        yield pings
        end.set()
        pings += receiving.recv()
    finally:
        process.terminate()
        process.join()


def _ping(path: Path, sending: Connection, end: Event) -> None:
    times: list[float] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        sending.send(None)
        while not end.is_set():
            began = time.perf_counter()
            connection.sendall(_PING)
            connection.recv(65_536)
            times.append((time.perf_counter() - began) * 1_000)
            time.sleep(_PAUSE_S)
    sending.send(times)


def _config(vendor: str) -> str:
    return f'\n[proxy]\nopenai_url = "{vendor}/openai"\n'


_KEY = {"authorization": "Bearer any"}
