"""Checks and their findings."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agentctx.wire import CheckStatus

T = TypeVar("T")

LOOK_S = 10.0
"""Timeout of a check that looks at files and settings."""
SCAN_S = 90.0
"""Timeout of a check that reads the whole database; longer than the storage's, so that its error shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. It never contains text of entries or secrets."""

    status: CheckStatus
    message: str
    """One phrase, also for a pass."""
    detail: str = ""
    """More detail, such as the files concerned."""
    hint: str = ""
    """What to do next if it is not a pass."""
    fixable: bool = False
    """Whether the check's fix can repair this finding."""

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
    """One thing to examine.

    `id` is one of `catalog.CHECK_IDS`. `run` changes nothing; `fix` repairs what `run` called fixable and
    returns what it did. Both may raise: the runner turns the error into a finding.
    """

    id: str
    run: Callable[[], Finding | Awaitable[Finding]]
    fix: Callable[[], Awaitable[str]] | None = None
    timeout_s: float = LOOK_S


def skipping(check: str, reason: str) -> Check:
    """Return a check that is skipped with the reason."""
    return Check(id=check, run=lambda: skipped(reason))


def judging(
    look: Callable[[], Awaitable[T]], judge: Callable[[T], Finding]
) -> Callable[[], Awaitable[Finding]]:
    """Return the `run` of a check that judges what `look` returns."""

    async def run() -> Finding:
        return judge(await look())

    return run


def blocking(look: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Make a blocking function awaitable.

    It runs in a thread that is never joined: a hanging file system must not keep the program from exiting,
    as a thread of the loop's executor would.
    """

    async def call() -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(give: Callable[[Any], None], outcome: object) -> None:
            if not answer.done():
                give(outcome)

        def work() -> None:
            outcome: tuple[Callable[[Any], None], object]
            try:
                outcome = answer.set_result, look()
            except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
                outcome = answer.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller is waiting
                loop.call_soon_threadsafe(settle, *outcome)

        threading.Thread(target=work, daemon=True).start()
        return await answer

    return call
