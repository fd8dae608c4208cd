"""The state of the server: the fault and the answer for each request, and what it remembers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.conditions import FakeRules
from agentctx_testing.fake_provider.delivery import ReplyGate
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.requests import Payload

_KEPT_CONVERSATIONS = 1_000


@dataclass(slots=True, kw_only=True)
class RecordedRequest:
    """A request received. Keys are only in `headers` and `query`, which are never printed."""

    provider: str
    """The provider's id, or `elsewhere` for the target of a redirect."""
    path: str
    has_key: bool
    payload: object
    """The parsed JSON body, or None."""
    method: str = "POST"
    query: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Names in lower case, in the order received."""
    body: bytes = field(default=b"", repr=False)
    """The raw body."""
    number: int = 0
    """Counted from 1 since the script was set; 0 for the target of a redirect, which is never scripted."""
    fault: str | None = None
    """The kind of fault applied to it."""
    aborted: bool = False
    """Whether the client disconnected before the end of the reply."""

    def header(self, name: str) -> str | None:
        """Return the value of the first header of this name."""
        return next((value for header_name, value in self.headers if header_name == name.lower()), None)


class Script:
    """Faults and answers, the first that matches a request being used; the last `kept` requests; the replies
    that `gate` holds; and the conversations that the vendor stores.
    """

    def __init__(self, faults: Sequence[HttpFault] = (), *, kept: int = 1_000) -> None:
        self.seen: deque[RecordedRequest] = deque(maxlen=kept)
        self.gate = ReplyGate()
        self.conversations: OrderedDict[str, list[Payload]] = OrderedDict()
        self._aborted = asyncio.Condition()
        self._answers: FakeRules[FakeAnswer] = FakeRules(())
        self.set(faults)

    def set(self, faults: Sequence[HttpFault]) -> None:
        """Replace the faults and count requests from 1 again."""
        self._faults = FakeRules(faults)
        self._number = 0

    def set_answers(self, answers: Sequence[FakeAnswer]) -> None:
        """Replace the answers; a chat that matches none is echoed."""
        self._answers = FakeRules(answers)

    def reset(self) -> None:
        """Clear the faults, answers, recorded requests and stored conversations; release slow replies."""
        self.set(())
        self.set_answers(())
        self.seen.clear()
        self.conversations.clear()
        self.gate.release()

    def take(self, seen: RecordedRequest) -> HttpFault | None:
        """Record a request and return its fault, if any."""
        self._number += 1
        seen.number = self._number
        fault = self._faults.choose(seen.number, seen.provider, seen.payload)
        seen.fault = fault.kind if fault else None
        self.seen.append(seen)
        return fault

    def answer(self, seen: RecordedRequest) -> FakeAnswer | None:
        """Return the scripted answer to the request, if any."""
        return self._answers.choose(seen.number, seen.provider, seen.payload)

    def remember(self, conversation: str, items: list[Payload]) -> None:
        """Store the items of a conversation; the oldest conversations are dropped."""
        self.conversations[conversation] = items
        while len(self.conversations) > _KEPT_CONVERSATIONS:
            self.conversations.popitem(last=False)

    async def abort(self, seen: RecordedRequest) -> None:
        """Note that the client of the request has disconnected."""
        async with self._aborted:
            seen.aborted = True
            self._aborted.notify_all()

    async def wait_until_aborted(self, count: int = 1) -> None:
        """Wait until `count` of the recorded requests have been aborted."""
        async with self._aborted:
            await self._aborted.wait_for(lambda: sum(seen.aborted for seen in self.seen) >= count)
