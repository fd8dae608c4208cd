"""A real Chroma server in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

START_TIMEOUT_S = 60


def wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    """Request the heartbeat until it answers; fail if the server exits."""
    for _ in range(START_TIMEOUT_S * 20):
        try:
            httpx.get(f"http://127.0.0.1:{port}/api/v2/heartbeat", trust_env=False).raise_for_status()
            return
        except httpx.TransportError:
            try:
                server.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
    raise AssertionError("chroma run did not start")


@contextmanager
def running(folder: Path, port: int) -> Iterator[None]:
    """Run `chroma run` on the port with its data in the folder."""
    command = [sys.executable, "-c", "from chromadb.cli.cli import app; app()", "run"]
    command += ["--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
        )
    try:
        wait_until_ready(server, port)
        yield
    finally:
        server.kill()
        server.wait()
