"""The environment of a reader of the documents: a daemon, and model vendors behind its proxy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.ports import free_port

PORT_IN_THE_DOCUMENTS = "18181"


@contextmanager
def fake_vendors() -> Iterator[str]:
    """Yield the address of a server that speaks every vendor's format, in another process."""
    command = [sys.executable, "-m", "agentctx", "dev", "fake-provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            first = server.stdout.readline()
            yield first.removeprefix("listening on ").partition(";")[0].strip()
        finally:
            server.terminate()
            server.stdout.read()


def daemon_config(vendors: str) -> tuple[str, int]:
    """Return a config whose proxy leads to the vendors, and its port."""
    port = free_port()
    lines = [f'{vendor}_url = "{vendors}/{path}"' for vendor, path in _PATHS.items()]
    return "\n".join(["[proxy]", f"tcp_port = {port}", *lines, ""]), port


_PATHS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google", "ollama": "ollama"}
KEYS = {"OPENAI_API_KEY": "any", "ANTHROPIC_API_KEY": "any", "GEMINI_API_KEY": "any"}
