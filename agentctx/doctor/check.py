"""What a check finds, and the decorator that makes a function a check."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

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
    detail: str = ""
    hint: str = ""
    """What to do next if it is not a pass."""
    fixable: bool = False

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


class Skip(Exception):
    """There is nothing to examine; the message says why. A check that raises it is skipped."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to examine. `run` and `fix` take an instance of `context`, which is what they look at."""

    context: type
    run: Callable[[Any], Awaitable[Finding]]
    fix: Callable[[Any], Awaitable[str]] | None
    timeout_s: float


CHECKS: Final[dict[str, Check]] = {}
"""The checks of all modules imported so far, by id."""

C = TypeVar("C")
Judge = TypeVar("Judge", bound=Callable[..., Finding | Awaitable[Finding]])


def check(
    context: type[C],
    check_id: str,
    *facts: Callable[[C], Any],
    fix: Callable[[C], str | Awaitable[str]] | None = None,
    timeout_s: float = LOOK_S,
) -> Callable[[Judge], Judge]:
    """Register the decorated function as the check with this id, which `catalog` lists.

    It takes the context, changes nothing and returns a finding. With `facts`, it takes what each of them
    returns for the context, and does no I/O. `fix` repairs what was called fixable, and returns what it did.
    All may raise: the runner turns the error into a finding. Those that do I/O are coroutines, or block and
    get a thread.
    """

    def register(function: Judge) -> Judge:
        async def run(given: C) -> Finding:
            if facts:
                return cast(Finding, function(*[await _call(fact, given) for fact in facts]))
            return cast(Finding, await _call(function, given))

        CHECKS[check_id] = Check(context, run, partial(_call, fix) if fix else None, timeout_s)
        return function

    return register


async def _call(function: Callable[[C], Any], given: C) -> Any:
    answer = function(given) if inspect.iscoroutinefunction(function) else await in_thread(function, given)
    return await answer if inspect.isawaitable(answer) else answer


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread that is never joined.

    A hanging file system must not keep the program from exiting, as a thread of the loop's executor would.
    """
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # from now on it cannot be cancelled, so that `work` can set it

    def work() -> None:
        try:
            answer.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(answer)
