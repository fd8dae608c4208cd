"""Signals that end a program: turned into an exception or an event, so that cleanup runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TypeAlias

SignalHandler: TypeAlias = Callable[[int, FrameType | None], object]

_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handling(handlers: Mapping[signal.Signals, SignalHandler]) -> Iterator[None]:
    """Handle signals in the block. Outside the main thread, which cannot handle any, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def end_on_termination() -> Iterator[None]:
    """Raise `SystemExit` on SIGTERM or SIGHUP in the block, with the exit code that a shell reports for them.

    Only the first counts: later ones must not interrupt the cleanup. A signal that is already ignored
    (`nohup`) stays ignored.
    """

    def end(number: int, _: object) -> NoReturn:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    handled = [each for each in _TERMINATION_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    with handling(dict.fromkeys(handled, end)):
        yield


@contextmanager
def defer_termination() -> Iterator[None]:
    """Defer termination signals to the end of the block, so that a process started in it is known by then."""
    noted: list[int] = []
    numbers = (*_TERMINATION_SIGNALS, signal.SIGINT)
    handled = [each for each in numbers if callable(signal.getsignal(each))]
    try:
        with handling(dict.fromkeys(handled, lambda number, _: noted.append(number))):
            yield
    finally:
        if noted:
            signal.raise_signal(noted[0])


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

    with handling({signal.SIGINT: on_signal}):
        yield stop
