"""The clock of the event loop is moved by hand: what waits is woken when its time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentctx.embedding_providers.pace import RequestPace


@pytest.fixture
async def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the loop's clock ahead, in seconds."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def move(seconds: float) -> None:
        ahead[0] += seconds

    return move


async def turned() -> None:
    """Let everything that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def turn(pace: RequestPace, tokens: int = 1, *, is_question: bool = False) -> asyncio.Task[None]:
    lane = pace.questions if is_question else pace.documents
    return asyncio.create_task(lane.turn(tokens))


async def test_without_limits_nothing_waits() -> None:
    pace = RequestPace()
    await pace.documents.turn(10**9)
    assert (pace.documents.max_tokens, pace.documents.longest_wait_s(32)) == (None, 0.0)


async def test_requests_of_documents_wait_for_their_minute(later: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=5)
    for _ in range(4):
        await pace.documents.turn(1)
    fifth = turn(pace)
    await turned()
    assert not fifth.done()
    later(15)
    await fifth


async def test_tokens_of_documents_wait_for_their_minute(later: Callable[[float], None]) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.documents.turn(800)
    more = turn(pace, 400)
    later(25)
    await turned()
    assert not more.done()
    later(10)
    await more


async def test_a_question_passes_batches_that_wait() -> None:
    pace = RequestPace(requests_per_minute=10, tokens_per_minute=1_000)
    await pace.documents.turn(800)
    batch = turn(pace, 800)
    await turned()
    await pace.questions.turn(20)
    assert not batch.done()
    batch.cancel()


async def test_questions_keep_to_their_share_too(later: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=10)
    await pace.questions.turn(1)
    await pace.questions.turn(1)
    third = turn(pace, is_question=True)
    await turned()
    assert not third.done()
    later(30)
    await third


async def test_a_question_that_is_given_up_leaves_nothing_behind(later: Callable[[float], None]) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.questions.turn(200)
    for _ in range(100):
        given_up = turn(pace, 200, is_question=True)
        await turned()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    later(60)
    await pace.questions.turn(200)


async def test_a_text_over_the_limit_takes_the_whole_minute_and_is_not_refused(
    later: Callable[[float], None],
) -> None:
    pace = RequestPace(tokens_per_minute=1_000)
    await pace.documents.turn(5_000)
    next_one = turn(pace)
    await turned()
    assert not next_one.done()
    later(1)
    await next_one


async def test_one_request_a_minute_is_possible(later: Callable[[float], None]) -> None:
    pace = RequestPace(requests_per_minute=1)
    await pace.questions.turn(1)
    second = turn(pace, is_question=True)
    later(299)
    await turned()
    assert not second.done()
    later(2)
    await second


def test_the_longest_wait_covers_a_batch() -> None:
    pace = RequestPace(requests_per_minute=5, tokens_per_minute=1_000)
    assert pace.documents.max_tokens == 800
    assert pace.documents.longest_wait_s(4) >= 60 * (4 / 4 + 4 * 2_000 / 800)
