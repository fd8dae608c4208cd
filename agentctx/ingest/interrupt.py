"""Graceful handling of Ctrl-C: the first requests a clean stop, the second stops immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def raise_on_interrupt() -> Iterator[None]:
    """Make the first SIGINT inside raise KeyboardInterrupt, for a prompt that waits for an answer."""
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
    """Yield an event that the first SIGINT sets; a second SIGINT raises KeyboardInterrupt.

    Outside the main thread, which cannot handle signals, nothing sets the event.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
