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
    """Lets calls through at a rate. 0 means no limit.

    A limit is a bucket, as providers count too: after a pause a minute's worth may go at once. A caller
    that is cancelled while waiting leaves nothing behind.
    """

    def __init__(self, requests_per_minute: int = 0, tokens_per_minute: int = 0) -> None:
        self.documents = PaceLane(requests_per_minute, tokens_per_minute, 1 - QUESTION_SHARE)
        self.questions = PaceLane(requests_per_minute, tokens_per_minute, QUESTION_SHARE)


class PaceLane:
    """A share of both limits."""

    def __init__(self, requests_per_minute: int, tokens_per_minute: int, share: float) -> None:
        self._requests = _limiter(requests_per_minute * share)
        self._tokens = _limiter(tokens_per_minute * share)

    @property
    def most_tokens(self) -> int | None:
        """What one request may hold, so that it can get its turn; None without a limit."""
        return int(self._tokens.max_rate) if self._tokens else None

    async def turn(self, tokens: int) -> None:
        """Wait until a request of so many tokens may be sent. One that is over the limit takes all of it."""
        if self._requests:
            await self._requests.acquire(1)
        if self._tokens:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))

    def longest_wait_s(self, texts: int) -> float:
        """How long the requests for so many texts wait at most, when each of them goes alone."""
        for_requests = _longest_wait_s(self._requests, texts)
        return for_requests + _longest_wait_s(self._tokens, texts * _LARGEST_TEXT_TOKENS)


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
