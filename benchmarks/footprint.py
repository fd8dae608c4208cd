"""What the daemon takes of a machine: memory, and time until it is ready."""

from __future__ import annotations

import compileall
import socket
import time
from pathlib import Path

import agentctx
from agentctx.cli.demo_daemon import DemoDaemon
from agentctx.errors import DeadlineExceeded
from agentctx.wire import StatusReply
from benchmarks.daemons import daemon_folder, drained, running
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median

MB = 1_000_000
MOST_WITH_MODEL_MB = 220
MOST_WITHOUT_MODEL_MB = 100
MOST_START_S = 1.0
_TEXT_CHARACTERS = 1_000
_READY_TIMEOUT_S = 30.0
_POLL_S = 0.001
_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: agentctx\r\nConnection: close\r\n\r\n"
_READY = b"HTTP/1.1 200"


async def measure(options: Options) -> list[Figure]:
    _compile()
    count = options.size(1_000, 150)
    with_model = await _resident_mb("embedded", count)
    without = await _resident_mb("none", count)
    starts = [_start_s() for _ in range(options.size(7, 3) + 1)][1:]  # the first one fills the caches
    return [
        Figure(
            name=f"RSS after {count} embedded texts",
            value=with_model,
            unit="MB",
            bar=at_most(MOST_WITH_MODEL_MB, f"{MOST_WITH_MODEL_MB} MB"),
        ),
        Figure(
            name=f"RSS after {count} texts, no model",
            value=without,
            unit="MB",
            bar=at_most(MOST_WITHOUT_MODEL_MB, f"{MOST_WITHOUT_MODEL_MB} MB"),
        ),
        Figure(
            name="start until ready, p50",
            value=median(starts),
            unit="s",
            bar=at_most(MOST_START_S, f"{MOST_START_S:g} s"),
        ),
        Figure(name="start until ready, slowest", value=max(starts), unit="s"),
    ]


def _compile() -> None:
    """Compile what has changed, as an installer does. Where PYTHONDONTWRITEBYTECODE is set, every start
    would compile it again: half a second, and memory.
    """
    for folder in agentctx.__path__:
        compileall.compile_dir(folder, quiet=2)


async def _resident_mb(provider: str, count: int) -> float:
    texts = TextSource(seed=9)
    async with running(provider) as client:
        for _ in range(count):
            await client.save_observation("bench", texts.text(_TEXT_CHARACTERS))
        await drained(client)
        await client.search(texts.question())
        status: StatusReply = await client.status()
    return status.rss_bytes / MB


def _start_s() -> float:
    """From the start of the process to the first yes of `/readyz`, with the default provider."""
    with daemon_folder() as folder:
        started = time.perf_counter()
        with DemoDaemon(folder) as daemon:
            while not _is_ready(daemon.socket):
                if time.perf_counter() - started > _READY_TIMEOUT_S:
                    raise DeadlineExceeded(f"The daemon was not ready:\n{daemon.log_tail()}")
                time.sleep(_POLL_S)
            return time.perf_counter() - started


def _is_ready(path: Path) -> bool:
    """Ask once, without the cost of a client library."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        connection.sendall(_REQUEST)
        return connection.recv(len(_READY)) == _READY
