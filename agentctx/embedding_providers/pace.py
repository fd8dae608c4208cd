"""Keeps to so many requests and tokens a minute; questions have a share of their own."""

from __future__ import annotations

from typing import Final

from aiolimiter import AsyncLimiter

MINUTE_S: Final = 60.0
QUESTION_SHARE: Final = 0.2
"""Of both limits. Questions need little, and must not stand in line behind batches."""
_LARGEST_TEXT_TOKENS: Final = 2_000
"""A chunk with its header has less."""


class RequestPace:
    """Lets calls through at a rate. 0 is no limit.

    A limit is a bucket, as providers count too: after a pause a minute's worth may go at once. Whoever is
    cancelled while waiting leaves nothing behind.
    """

    def __init__(self, requests_per_minute: int = 0, tokens_per_minute: int = 0) -> None:
        self._documents = _Lane(requests_per_minute, tokens_per_minute, 1 - QUESTION_SHARE)
        self._questions = _Lane(requests_per_minute, tokens_per_minute, QUESTION_SHARE)

    @property
    def most_tokens(self) -> int | None:
        """What a request for documents may hold, so that it can get its turn; None without a limit."""
        tokens = self._documents.tokens
        return int(tokens.max_rate) if tokens else None

    async def turn(self, tokens: int, *, is_question: bool) -> None:
        """Wait until a request of so many tokens may be sent. One that is over the limit takes all of it."""
        await (self._questions if is_question else self._documents).turn(tokens)

    def longest_wait_s(self, texts: int) -> float:
        """How long the requests for so many documents wait at most, when each of them goes alone."""
        return self._documents.longest_wait_s(texts)


class _Lane:
    def __init__(self, requests_per_minute: int, tokens_per_minute: int, share: float) -> None:
        self._requests = _limiter(requests_per_minute * share)
        self.tokens = _limiter(tokens_per_minute * share)

    async def turn(self, tokens: int) -> None:
        if self._requests:
            await self._requests.acquire(1)
        if self.tokens:
            await self.tokens.acquire(min(tokens, self.tokens.max_rate))

    def longest_wait_s(self, texts: int) -> float:
        return _longest_wait_s(self._requests, texts) + _longest_wait_s(
            self.tokens, texts * _LARGEST_TEXT_TOKENS
        )


def _limiter(per_minute: float) -> AsyncLimiter | None:
    if not per_minute:
        return None
    # A bucket must hold one request: with less than that a minute it takes longer to fill.
    capacity = max(1.0, per_minute)
    return AsyncLimiter(capacity, MINUTE_S * capacity / per_minute)


def _longest_wait_s(limiter: AsyncLimiter | None, amount: float) -> float:
    """Until a bucket that is full at first, and is shared with a probe, has taken the amount."""
    if limiter is None:
        return 0.0
    return (amount + limiter.max_rate) * limiter.time_period / limiter.max_rate
