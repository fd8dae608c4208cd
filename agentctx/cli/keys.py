"""Single keys from a terminal, without Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def pressed_keys() -> Iterator[Callable[[float], str]]:
    """A function that waits at most so many seconds and gives the key pressed, or "". Ctrl-C stays Ctrl-C.

    Where stdin is not a terminal it only waits.
    """
    if not sys.stdin.isatty():
        yield _no_key
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: _key(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(descriptor: int, seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 64).decode(errors="replace") if ready else ""


def _no_key(seconds: float) -> str:
    select.select([], [], [], seconds)
    return ""
