"""Rate limits, with the event loop's clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentctx.embedding.providers.pace import RequestPace


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


def take_turn(pace: RequestPace, tokens: int = 1, *, is_question: bool = False) -> asyncio.Task[None]:
    lane = pace.questions if is_question else pace.documents
    return asyncio.create_task(lane.turn(tokens))


async def test_without_limits_nothing_waits() -> None:
    pace = RequestPace()
    await pace.documents.turn(10**9)
    assert (pace.documents.max_tokens, pace.documents.longest_wait_s(32)) == (None, 0.0)


async def test_requests_for_documents_are_limited_per_minute(advance: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=5)
    for _ in range(4):
        await pace.documents.turn(1)
    fifth = take_turn(pace)
    await run_ready_tasks()
    assert not fifth.done()
    advance(15)
    await fifth


async def test_tokens_for_documents_are_limited_per_minute(advance: Callable[[float], None]) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.documents.turn(800)
    more = take_turn(pace, 400)
    advance(25)
    await run_ready_tasks()
    assert not more.done()
    advance(10)
    await more


async def test_a_question_overtakes_waiting_batches() -> None:
    pace = RequestPace(requests_per_minute=10, tokens_per_minute=1_000)
    await pace.documents.turn(800)
    batch = take_turn(pace, 800)
    await run_ready_tasks()
    await pace.questions.turn(20)
    assert not batch.done()
    batch.cancel()


async def test_questions_are_limited_to_their_share_too(advance: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=10)
    await pace.questions.turn(1)
    await pace.questions.turn(1)
    third = take_turn(pace, is_question=True)
    await run_ready_tasks()
    assert not third.done()
    advance(30)
    await third


async def test_a_cancelled_question_uses_no_quota(advance: Callable[[float], None]) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.questions.turn(200)
    for _ in range(100):
        cancelled = take_turn(pace, 200, is_question=True)
        await run_ready_tasks()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    advance(60)
    await pace.questions.turn(200)


async def test_a_text_over_the_limit_takes_a_whole_minute_but_is_not_refused(
    advance: Callable[[float], None],
) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.documents.turn(5_000)
    next_one = take_turn(pace)
    await run_ready_tasks()
    assert not next_one.done()
    advance(1)
    await next_one


async def test_one_request_per_minute_is_possible(advance: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=1)
    await pace.questions.turn(1)
    second = take_turn(pace, is_question=True)
    advance(299)
    await run_ready_tasks()
    assert not second.done()
    advance(2)
    await second


def test_the_longest_wait_covers_a_batch() -> None:
    pace = RequestPace(requests_per_minute=5, tokens_per_minute=1_000)
    assert pace.documents.max_tokens == 800
    assert pace.documents.longest_wait_s(4) >= 60 * (4 / 4 + 4 * 2_000 / 800)
