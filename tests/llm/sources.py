"""Context sources for tests: one returns fixed answers, one never answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentctx.llm.context_source import ContextQuestion, GivenContext


class Answering:
    """Answers each question with `block(text)` and records it."""

    def __init__(self, block: Callable[[str], str] = "block for {}".format) -> None:
        self._block = block
        self.asked: list[ContextQuestion] = []

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        self.asked.append(question)
        await asyncio.sleep(0)  # lets concurrent calls meet
        return GivenContext(block=self._block(question.text), tokens=3)


class Failing:
    """Raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        raise self._error


class Silent:
    """Never answers. `asked` is set while a caller waits, `cancelled` when the wait is cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def context(self, question: ContextQuestion, /) -> GivenContext:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError
