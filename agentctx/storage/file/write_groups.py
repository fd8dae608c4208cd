"""Groups waiting writes so that they share a commit."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from agentctx.storage.file.commit import CompletedWrite, FailedWrite, Outcome, WriteFunction

MAX_GROUP: Final = 256
"""Maximum number of functions in one commit."""
GROUP_GAP_S: Final = 0.003
"""A group closes if no caller arrives for this long; a server needs about 0.5 ms between two callers."""
GROUP_WAIT_S: Final = 0.012
"""A group closes this long after its first caller, even if more may come."""


@dataclass(frozen=True, slots=True)
class WaitingWrite:
    """A function to commit, and its caller's future; `arrived` is in seconds of the monotonic clock."""

    function: WriteFunction[Any]
    future: asyncio.Future[Any]
    arrived: float
    committed: Callable[[Any], None] | None = None

    def answer(self, outcome: Outcome) -> None:
        """Resolve the caller's future, unless it was cancelled. Whether or not, tell `committed`."""
        if self.committed is not None and isinstance(outcome, CompletedWrite):
            self.committed(outcome.result)
        if self.future.done():
            return
        if isinstance(outcome, CompletedWrite):
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

    def add(
        self, function: WriteFunction[Any], committed: Callable[[Any], None] | None = None
    ) -> asyncio.Future[Any]:
        """Queue a function for its group; return the future of its result."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingWrite(function, future, time.monotonic(), committed))
        return future

    def starts_or_completes(self) -> bool:
        """Return whether the latest write starts a group, or completes the expected number."""
        return len(self._waiting) == 1 or len(self._waiting) >= self._window.expected

    def remaining_s(self) -> float:
        """Return how long the present, non-empty group stays open; 0 or less means commit now."""
        # A caller that arrived during the last commit waited for that commit, not for others to join.
        first = max(self._waiting[0].arrived, self._opened)
        last = max(self._waiting[-1].arrived, self._opened)
        closes = self._window.closes_at(waiting=len(self._waiting), first=first, last=last)
        return closes - time.monotonic()

    def take(self) -> list[WaitingWrite]:
        """Remove and return the next group, oldest first."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_GROUP))]

    def committed(self, members: int) -> None:
        """Open the next group, after a commit of `members` writes."""
        self._opened = time.monotonic()
        self._window.committed(members=members, arrived=len(self._waiting))

    def refuse_all(self, error: Callable[[], Exception]) -> None:
        """Fail every waiting caller with its own error, since a raised error collects tracebacks."""
        while self._waiting:
            self._waiting.popleft().answer(FailedWrite(error()))


class GroupWindow:
    """Decides how long a group stays open. Times are seconds of the caller's clock.

    It expects as many callers as took part around the last commit. A single caller is not delayed; when the
    others stop coming, this costs one gap, once.
    """

    def __init__(self) -> None:
        self.expected = 1

    def closes_at(self, *, waiting: int, first: float, last: float) -> float:
        """Return when to commit `waiting` callers, the first and last of whom came at these times."""
        if waiting >= self.expected:
            return last
        return min(first + GROUP_WAIT_S, last + GROUP_GAP_S)

    def committed(self, *, members: int, arrived: int) -> None:
        """Learn from a commit of `members` callers, during which `arrived` others came."""
        seen = min(members + arrived, MAX_GROUP)
        if seen == 1 or seen >= self.expected:
            self.expected = seen
        else:
            self.expected = (self.expected + seen) // 2
