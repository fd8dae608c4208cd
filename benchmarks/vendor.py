"""The fake provider server in a separate process, for benchmarks that need a vendor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fake_vendor() -> Iterator[str]:
    """Run the server during the block; yield its base URL without a trailing slash."""
    command = [sys.executable, "-m", "agentctx", "dev", "fake-provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        if server.stdout is None:
            raise RuntimeError("the fake vendor says nothing")
        try:
            yield server.stdout.readline().removeprefix("listening on ").partition(";")[0].strip()
        finally:
            server.terminate()
            server.stdout.read()
