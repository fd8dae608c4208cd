"""Processes that start in milliseconds, forked from a server that has imported the daemon."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO

_PRELOADED = [
    "agentctx.cli.serve",
    "agentctx.daemon.run",
    "agentctx.embedding.providers.embedded.provider",
    "agentctx.embedding.providers.fake",
    "agentctx_postgresql.engine",
    "agentctx.storage.sqlite.engine",
    "tests.durability.sabotage",
    "uvloop",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
]


@cache
def forking() -> ForkServerContext:
    """Creates the processes; one server per test process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


class ForkedCommand:
    """`agentctx ARGUMENTS` without starting an interpreter, with the part of `Popen` that the tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        reading, writing = forking().Pipe(duplex=False)
        self._process = forking().Process(
            target=_run, args=(list(arguments), dict(environment), Path.cwd(), writing), daemon=True
        )
        self._process.start()
        writing.close()
        self.stderr: IO[bytes] = os.fdopen(os.dup(reading.fileno()), "rb")
        reading.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, f"process {self.pid} has not ended within {timeout} s"
        return code


def _run(arguments: list[str], environment: dict[str, str], folder: Path, stderr: Connection) -> None:
    """Run in the forked process."""
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    # The object over the file that the server had there believes that it can seek.
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from agentctx.cli import main

    main(arguments)
