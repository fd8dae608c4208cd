"""Rate limits, with the event loop's clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentctx.embedding.providers.rate_limits import RateLimits


@pytest.fixture
async def advance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the loop's clock ahead, in seconds."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def move(seconds: float) -> None:
        ahead[0] += seconds

    return move


async def run_ready_tasks() -> None:
    """Run everything that can run without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


def start_acquiring(rates: RateLimits, tokens: int = 1, *, is_question: bool = False) -> asyncio.Task[None]:
    limit = rates.questions if is_question else rates.documents
    return asyncio.create_task(limit.acquire(tokens))


async def test_without_limits_nothing_waits() -> None:
    rates = RateLimits()
    await rates.documents.acquire(10**9)
    assert (rates.documents.max_tokens, rates.documents.longest_wait_s(32)) == (None, 0.0)


async def test_requests_for_documents_are_limited_per_minute(advance: Callable[[float], None]) -> None:
    rates = RateLimits(requests_per_minute=5)
    for _ in range(4):
        await rates.documents.acquire(1)
    fifth = start_acquiring(rates)
    await run_ready_tasks()
    assert not fifth.done()
    advance(15)
    await fifth


async def test_tokens_for_documents_are_limited_per_minute(advance: Callable[[float], None]) -> None:
    rates = RateLimits(tokens_per_minute=1_000)
    await rates.documents.acquire(800)
    more = start_acquiring(rates, 400)
    advance(25)
    await run_ready_tasks()
    assert not more.done()
    advance(10)
    await more


async def test_a_question_overtakes_waiting_batches() -> None:
    rates = RateLimits(requests_per_minute=10, tokens_per_minute=1_000)
    await rates.documents.acquire(800)
    batch = start_acquiring(rates, 800)
    await run_ready_tasks()
    await rates.questions.acquire(20)
    assert not batch.done()
    batch.cancel()


async def test_questions_are_limited_to_their_share_too(advance: Callable[[float], None]) -> None:
    rates = RateLimits(requests_per_minute=10)
    await rates.questions.acquire(1)
    await rates.questions.acquire(1)
    third = start_acquiring(rates, is_question=True)
    await run_ready_tasks()
    assert not third.done()
    advance(30)
    await third


async def test_a_cancelled_question_uses_no_quota(advance: Callable[[float], None]) -> None:
    rates = RateLimits(tokens_per_minute=1_000)
    await rates.questions.acquire(200)
    for _ in range(100):
        cancelled = start_acquiring(rates, 200, is_question=True)
        await run_ready_tasks()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    advance(60)
    await rates.questions.acquire(200)


async def test_a_text_over_the_limit_takes_a_whole_minute_but_is_not_refused(
    advance: Callable[[float], None],
) -> None:
    rates = RateLimits(tokens_per_minute=1_000)
    await rates.documents.acquire(5_000)
    next_one = start_acquiring(rates)
    await run_ready_tasks()
    assert not next_one.done()
    advance(1)
    await next_one


async def test_one_request_per_minute_is_possible(advance: Callable[[float], None]) -> None:
    rates = RateLimits(requests_per_minute=1)
    await rates.questions.acquire(1)
    second = start_acquiring(rates, is_question=True)
    advance(299)
    await run_ready_tasks()
    assert not second.done()
    advance(2)
    await second


def test_the_longest_wait_covers_a_batch() -> None:
    rates = RateLimits(requests_per_minute=5, tokens_per_minute=1_000)
    assert rates.documents.max_tokens == 800
    assert rates.documents.longest_wait_s(4) >= 60 * (4 / 4 + 4 * 2_000 / 800)
