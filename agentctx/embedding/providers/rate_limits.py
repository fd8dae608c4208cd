"""Limits requests and tokens per minute; questions have a share of their own."""

from __future__ import annotations

from typing import Final

from aiolimiter import AsyncLimiter

MINUTE_S: Final = 60.0
QUESTION_SHARE: Final = 0.2
"""The questions' share of both limits. They need little, and must not queue behind batches."""
_LARGEST_TEXT_TOKENS: Final = 2_000
"""A chunk with its header has fewer."""


class RateLimits:
    """Limits the rate of calls. 0 means no limit.

    Each limit is a leaky bucket, like the providers' own: after a pause, a minute's worth may go at once. A
    caller that is cancelled while waiting uses up nothing.
    """

    def __init__(self, requests_per_minute: int = 0, tokens_per_minute: int = 0) -> None:
        self.documents = RateLimit(requests_per_minute, tokens_per_minute, 1 - QUESTION_SHARE)
        self.questions = RateLimit(requests_per_minute, tokens_per_minute, QUESTION_SHARE)


class RateLimit:
    """A share of both limits."""

    def __init__(self, requests_per_minute: int, tokens_per_minute: int, share: float) -> None:
        self._requests = _limiter(requests_per_minute * share)
        self._tokens = _limiter(tokens_per_minute * share)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of a request that the limit lets through; None without a limit."""
        return int(self._tokens.max_rate) if self._tokens else None

    async def acquire(self, tokens: int) -> None:
        """Wait until a request of `tokens` tokens may be sent. One over the limit uses all of it."""
        if self._requests:
            await self._requests.acquire(1)
        if self._tokens:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))

    def longest_wait_s(self, texts: int) -> float:
        """Return the longest wait for the requests of `texts` texts, if each is sent alone."""
        for_requests = _longest_wait_s(self._requests, texts)
        return for_requests + _longest_wait_s(self._tokens, texts * _LARGEST_TEXT_TOKENS)


def _limiter(per_minute: float) -> AsyncLimiter | None:
    if not per_minute:
        return None
    # A bucket must hold one request: at a rate below one per minute it takes longer to fill.
    capacity = max(1.0, per_minute)
    return AsyncLimiter(capacity, MINUTE_S * capacity / per_minute)


def _longest_wait_s(limiter: AsyncLimiter | None, amount: float) -> float:
    """Return the seconds until a full bucket that is shared with a probe has let the amount through."""
    if limiter is None:
        return 0.0
    return (amount + limiter.max_rate) * limiter.time_period / limiter.max_rate
