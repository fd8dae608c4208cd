"""Signals that end a program: turned into an exception or an event, so that cleanup runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def end_on_termination() -> Iterator[None]:
    """Raise `SystemExit` on SIGTERM or SIGHUP in the block, with the exit code that a shell reports for them.

    Only the first counts: later ones must not interrupt the cleanup. A signal that is already ignored
    (`nohup`) stays ignored.
    """

    def end(number: int, _: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {
        each: handler
        for each in _TERMINATION_SIGNALS
        if (handler := signal.getsignal(each)) != signal.SIG_IGN
    }
    for each in before:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def defer_termination() -> Iterator[None]:
    """Defer termination signals to the end of the block, so that a process started in it is known by then."""
    noted: list[int] = []
    before = {
        each: handler
        for each in (*_TERMINATION_SIGNALS, signal.SIGINT)
        if callable(handler := signal.getsignal(each))
    }
    for each in before:
        signal.signal(each, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if noted:
            signal.raise_signal(noted[0])


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
