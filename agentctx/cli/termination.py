"""Turns termination signals into an exception, so that cleanup runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
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
