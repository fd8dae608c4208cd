"""Processes that start in milliseconds, forked from a server that has imported the daemon."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO

_PRELOADED = [
    "agentctx.cli.ask",
    "agentctx.cli.edit",
    "agentctx.cli.entries",
    "agentctx.cli.ingest",
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
    """`agentctx ARGUMENTS` without starting an interpreter, with the part of `Popen` that the tests use.

    `stderr` is a pipe. With `prints`, `stdout` is one as well; when `merged`, it is for both.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: Path | bytes | None = None,
        *,
        prints: bool = False,
        merged: bool = False,
    ) -> None:
        pipes = [forking().Pipe(duplex=False) for _ in range(2 if prints and not merged else 1)]
        written = [pipes[0][1], pipes[-1][1]] if prints else [None, pipes[0][1]]
        where = os.fspath(folder or Path.cwd())
        self._process = forking().Process(
            target=_run, args=(list(arguments), dict(environment or os.environ), where, written), daemon=True
        )
        self._process.start()
        for _, writing in pipes:
            writing.close()
        streams = [_read_end(reading) for reading, _ in pipes]
        self.stdout = streams[0] if prints else None
        self.stderr = streams[-1]

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, f"process {self.pid} has not ended within {timeout} s"
        return code

    def end(self, timeout: float) -> tuple[int, str, str]:
        """Wait for the end; return the exit code and what was printed."""
        assert self.stdout is not None
        printed: list[bytes] = []
        with self.stdout as stdout, self.stderr:
            reading = threading.Thread(target=lambda: printed.append(stdout.read()))
            reading.start()
            reported = self.stderr.read()
            reading.join(timeout)
        return self.wait(timeout), printed[0].decode(), reported.decode()


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Return what came of `agentctx ARGUMENTS`, as `subprocess.run` does."""
    command = ForkedCommand(arguments, environment, folder, prints=True)
    return subprocess.CompletedProcess(["agentctx", *arguments], *command.end(60))


def _read_end(pipe: Connection) -> IO[bytes]:
    stream = os.fdopen(os.dup(pipe.fileno()), "rb")
    pipe.close()
    return stream


def _run(
    arguments: list[str],
    environment: dict[str, str],
    folder: str | bytes,
    outputs: Sequence[Connection | None],
) -> None:
    """Run in the forked process."""
    for number, output in enumerate(outputs, 1):
        if output is not None:
            os.dup2(output.fileno(), number)
    for output in {each for each in outputs if each is not None}:
        output.close()
    # The objects over the files that the server had there believe that they can seek.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from agentctx.cli import main

    main(arguments)
