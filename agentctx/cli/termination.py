"""Signals that end a process, as an exception, so that what was begun is put away."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def end_on_termination() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `SystemExit` in the block, with the exit code a shell gives to such an end.

    The first one counts; others must not interrupt the tidying up. A signal that is ignored (`nohup`) stays
    ignored.
    """

    def end(number: int, _: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {each: handler for each in _ENDING if (handler := signal.getsignal(each)) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def termination_deferred() -> Iterator[None]:
    """Signals that end the process take effect at the end of the block: what it starts is known by then."""
    noted: list[int] = []
    before = {
        each: handler for each in (*_ENDING, signal.SIGINT) if callable(handler := signal.getsignal(each))
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
