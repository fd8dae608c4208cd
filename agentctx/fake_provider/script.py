"""Which fault a request gets, what is said in reply, and what has come in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentctx.fake_provider.answers import FakeAnswer
from agentctx.fake_provider.conditions import FakeRules
from agentctx.fake_provider.faults import HttpFault


@dataclass(slots=True, kw_only=True)
class Seen:
    """A request that arrived. Keys are in `headers` and `query` alone, which are never printed."""

    provider: str
    """Or `elsewhere`, the target of a redirect."""
    path: str
    has_key: bool
    payload: object
    """The body as JSON, or None."""
    method: str = "POST"
    query: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """As they came, in lower case."""
    body: bytes = field(default=b"", repr=False)
    """As it came."""
    number: int = 0
    """From 1, since the script was set; 0 for the target of a redirect, which is never scripted."""
    fault: str | None = None
    """The kind of fault that it got."""
    aborted: bool = False
    """The client left before the reply was over."""

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for found, value in self.headers if found == name.lower()), None)


class Script:
    """Faults and answers, of which the first that fits a request happens; the last `kept` requests."""

    def __init__(self, faults: Sequence[HttpFault] = (), *, kept: int = 1_000) -> None:
        self.seen: deque[Seen] = deque(maxlen=kept)
        self._aborted = asyncio.Condition()
        self._answers: FakeRules[FakeAnswer] = FakeRules(())
        self.set(faults)

    def set(self, faults: Sequence[HttpFault]) -> None:
        """Replace the faults; requests are counted from 1 again."""
        self._faults = FakeRules(faults)
        self._number = 0

    def set_answers(self, answers: Sequence[FakeAnswer]) -> None:
        """Replace the answers; where none fits, chats echo."""
        self._answers = FakeRules(answers)

    def reset(self) -> None:
        """No faults, no answers, and nothing has come in."""
        self.set(())
        self.set_answers(())
        self.seen.clear()

    def take(self, seen: Seen) -> HttpFault | None:
        """Record a request; the fault that happens to it."""
        self._number += 1
        seen.number = self._number
        fault = self._faults.choose(seen.number, seen.provider, seen.payload)
        seen.fault = fault.kind if fault else None
        self.seen.append(seen)
        return fault

    def answer(self, seen: Seen) -> FakeAnswer | None:
        """What is said in reply to it."""
        return self._answers.choose(seen.number, seen.provider, seen.payload)

    def record(self, seen: Seen) -> None:
        """Record a request to which nothing happens."""
        self.seen.append(seen)

    async def abort(self, seen: Seen) -> None:
        """Its client has left."""
        async with self._aborted:
            seen.aborted = True
            self._aborted.notify_all()

    async def wait_until_aborted(self, count: int = 1) -> None:
        """Return when so many of the recorded requests were aborted."""
        async with self._aborted:
            await self._aborted.wait_for(lambda: sum(seen.aborted for seen in self.seen) >= count)
