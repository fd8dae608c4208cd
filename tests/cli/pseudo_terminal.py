"""A command in a pseudo-terminal: its output is read, keys can be pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

INTERRUPT_S = 10.0
"""Long enough for a command to exit between two interrupts on a busy machine."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class PseudoTerminal:
    """`agentctx ARGS` under a pty. Reading ends when the command exits."""

    def __init__(self, args: Sequence[str], *, columns: int = 80, rows: int = 24, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentctx", *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # As a shell's: the kernel knows who has a terminal, and is in its foreground.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other thread starts any
            env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(rows), **env},
        )
        os.close(slave)
        self.output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def present_modes(self) -> list[Any]:
        """The terminal's settings, as `termios.tcgetattr` returns them."""
        return termios.tcgetattr(self._master)

    def read_until(self, text: str) -> str:
        """Wait for a text; return the output up to it, without control sequences, and consume it."""
        while text not in (shown := _CONTROL.sub("", self.output)):
            assert self._read(), f"{text!r} never came in {self.output!r}"
        self.output = ""
        return shown

    def interrupt(self) -> tuple[int, str]:
        """Interrupt it until it exits, as a user does; return the exit code and the output since.

        A signal between Python's check for signals and the next read interrupts nothing.
        """
        self.process.send_signal(signal.SIGINT)
        while True:
            if not select.select([self._master], [], [], INTERRUPT_S)[0]:
                self.process.send_signal(signal.SIGINT)
            elif not self._read():
                return self.finish()

    def finish(self) -> tuple[int, str]:
        """Return the exit code and the output since."""
        while self._read():
            pass
        return self.process.wait(), self.output

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            # Linux reports this when the last process on the other side has exited.
            return False
        self.output += data.decode(errors="replace")
        return bool(data)
