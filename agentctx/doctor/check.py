"""What a check is and what it can find."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from agentctx.wire import CheckStatus

T = TypeVar("T")

LOOK_S = 10.0
"""Enough for whatever looks at files and settings."""
SCAN_S = 90.0
"""For what reads the whole database: more than the storage gives itself, so that its own error is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. No text of entries and no secret is ever in it."""

    status: CheckStatus
    message: str
    """One phrase, also when all is well."""
    detail: str = ""
    """More detail, such as the files concerned."""
    hint: str = ""
    """What to do next, when it is not a pass."""
    fixable: bool = False
    """Whether the fix of the check can do something about this very finding."""

    @property
    def is_trouble(self) -> bool:
        return self.status in {"warn", "fail"}


def passed(message: str, *, detail: str = "") -> Finding:
    return Finding(status="pass", message=message, detail=detail)


def warned(message: str, *, hint: str, detail: str = "", fixable: bool = False) -> Finding:
    return Finding(status="warn", message=message, detail=detail, hint=hint, fixable=fixable)


def failed(message: str, *, hint: str, detail: str = "", fixable: bool = False) -> Finding:
    return Finding(status="fail", message=message, detail=detail, hint=hint, fixable=fixable)


def skipped(message: str, *, hint: str = "") -> Finding:
    return Finding(status="skip", message=message, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is examined.

    `id` is one of `catalog.CHECK_IDS`. `run` looks and changes nothing; `fix` repairs what `run` called
    fixable and says what it did. Both may raise: the runner makes a finding of it.
    """

    id: str
    run: Callable[[], Awaitable[Finding]]
    fix: Callable[[], Awaitable[str]] | None = None
    timeout_s: float = LOOK_S


def blocking(look: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """A function that blocks, as one that is awaited.

    It gets a thread that is never joined: a file system that hangs must not keep the program from ending,
    as a thread of the loop's executor would.
    """

    async def call() -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                settle = partial(_give, answer, look())
            except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
                settle = partial(_refuse, answer, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=work, daemon=True).start()
        return await answer

    return call


def _give(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _refuse(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
