"""Ctrl-C as a wish to end well: the first is noted, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_once() -> Iterator[None]:
    """Inside, the first SIGINT raises KeyboardInterrupt: a question on the terminal waits for an answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that the first SIGINT sets. The second raises KeyboardInterrupt.

    Outside of the main thread, where signals do not arrive, nothing sets it.
    """
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
