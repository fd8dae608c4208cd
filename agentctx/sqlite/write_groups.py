"""Writes whose callers wait, taken in groups that share a commit."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentctx.sqlite.commit import Done, FailedWrite, Outcome
from agentctx.sqlite.group_window import MAX_GROUP, GroupWindow
from agentctx.sqlite.reserve import Write


@dataclass(frozen=True, slots=True)
class WaitingWrite:
    """A write and the future that its caller awaits; `arrived` in seconds of the monotonic clock."""

    write: Write
    future: asyncio.Future[Any]
    arrived: float

    def answer(self, outcome: Outcome) -> None:
        """Answer the caller, unless it was cancelled."""
        if self.future.done():
            return
        if isinstance(outcome, Done):
            self.future.set_result(outcome.result)
        else:
            self.future.set_exception(outcome.error)


class WriteGroups:
    """Collects writes, and decides when the next group is complete."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingWrite] = deque()
        self._window = GroupWindow()
        self._opened = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, write: Write) -> asyncio.Future[Any]:
        """Let a write wait for its group. Returns the future of its result."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingWrite(write, future, time.monotonic()))
        return future

    def starts_or_completes(self) -> bool:
        """Whether the write added last begins a group, or is the last that was expected."""
        return len(self._waiting) == 1 or len(self._waiting) >= self._window.expected

    def remaining_s(self) -> float:
        """How long the present group stays open, at least one write waiting; 0 or less: commit it."""
        # A caller that came during the last commit waited for that, not for others to join.
        first = max(self._waiting[0].arrived, self._opened)
        last = max(self._waiting[-1].arrived, self._opened)
        closes = self._window.closes_at(waiting=len(self._waiting), first=first, last=last)
        return closes - time.monotonic()

    def take(self) -> list[WaitingWrite]:
        """The next group, oldest first."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_GROUP))]

    def committed(self, members: int) -> None:
        """Open the next group, after a commit of so many members."""
        self._opened = time.monotonic()
        self._window.committed(members=members, arrived=len(self._waiting))

    def refuse_all(self, error: Callable[[], Exception]) -> None:
        """Answer every waiting caller with an error of its own: a raised one collects tracebacks."""
        while self._waiting:
            self._waiting.popleft().answer(FailedWrite(error()))
