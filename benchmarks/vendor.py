"""The fake provider server in a process of its own, where a benchmark needs a vendor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fake_vendor() -> Iterator[str]:
    """Run it for the block; its address, without a slash at the end."""
    command = [sys.executable, "-m", "agentctx", "dev", "fake-provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the fake vendor says nothing")
        try:
            yield server.stdout.readline().removeprefix("listening on ").partition(";")[0].strip()
        finally:
            server.terminate()
            server.stdout.read()
