"""Daemons for benchmarks: a folder, a config, a process, and a client that waits for it."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from agentctx.cli.demo_daemon import DemoDaemon
from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client
from agentctx.errors import DeadlineExceeded
from agentctx.storage.offline import DATABASE_NAME

READY_TIMEOUT_S = 120.0
MODEL_TIMEOUT_S = 120.0
"""The first start on a machine builds the embedded model."""
_POLL_S = 0.05
_SHORT_POLL_S = 0.001
_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: agentctx\r\nConnection: close\r\n\r\n"
_READY = b"HTTP/1.1 200"


@contextmanager
def daemon_folder(provider: str = "embedded", more: str = "", *, address: str = "") -> Iterator[Path]:
    """Yield a folder for `DemoDaemon` and remove it at the end. Its config names the provider, the URL of an
    HTTP provider, and then `more`.
    """
    with tempfile.TemporaryDirectory(prefix="agentctx-bench-") as name:
        folder = Path(name)
        remote = f'base_url = "{address}"\napi_key = "any"\n' if address else ""
        config = f'[embedding]\nprovider = "{provider}"\n{remote}\n[log]\nlevel = "warning"\n{more}'
        (folder / "agentctx.toml").write_text(config, "utf-8")
        (folder / "data").mkdir(mode=0o700)
        yield folder


def database_in(folder: Path) -> Path:
    """Return the path of the folder's database."""
    return folder / "data" / DATABASE_NAME


def start_s(folder: Path) -> float:
    """Return the seconds from the start of a process until `/readyz` succeeds; stop it afterwards."""
    started = time.perf_counter()
    with DemoDaemon(folder) as daemon:
        while not _is_ready(daemon.socket):
            if time.perf_counter() - started > READY_TIMEOUT_S:
                raise DeadlineExceeded(f"The daemon was not ready:\n{daemon.log_tail()}")
            time.sleep(_SHORT_POLL_S)
        return time.perf_counter() - started


def _is_ready(path: Path) -> bool:
    """Ask once, without the overhead of a client library."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        connection.sendall(_REQUEST)
        return connection.recv(len(_READY)) == _READY


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[AsyncClient]:
    """Yield a client of a daemon in `folder` that is ready and whose model, if any, has answered."""
    with DemoDaemon(folder) as daemon:
        with Client(daemon.socket) as blocking:
            daemon.wait_ready(blocking)
        async with AsyncClient(daemon.socket) as client:
            await _model_answers(client)
            yield client


@asynccontextmanager
async def running(provider: str = "embedded") -> AsyncIterator[AsyncClient]:
    """Yield a client of an empty daemon."""
    with daemon_folder(provider) as folder:
        async with started(folder) as client:
            yield client


async def drained(client: AsyncClient, *, poll_s: float = _POLL_S) -> None:
    """Wait until no embedding is pending. Each poll costs the daemon about 1 ms of CPU time."""
    while (await client.queue()).pending:  # noqa: ASYNC110 - the queue of another process
        await asyncio.sleep(poll_s)


async def _model_answers(client: AsyncClient) -> None:
    try:
        async with asyncio.timeout(MODEL_TIMEOUT_S):
            while (await client.status()).provider.state not in {"ok", "off"}:  # noqa: ASYNC110 - as above
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        reason = (await client.status()).provider.reason
        raise DeadlineExceeded(f"The model has not answered in {MODEL_TIMEOUT_S:g} s: {reason}.") from None
