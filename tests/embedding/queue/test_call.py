from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from agentctx.embedding.queue.call import call_provider
from agentctx.embedding.queue.retry import Failure
from agentctx.errors import Disposition
from agentctx.storage.vectors import Vectors
from tests.embedding.queue.manual_timer import ManualTimer
from tests.embedding.queue.scripted_provider import DIMENSION, ScriptedProvider, failing, good_reply

TEXTS = ["one", "two", "three"]


async def outcome(provider: ScriptedProvider, timer: ManualTimer) -> Vectors | Failure:
    return await timer.run(call_provider(provider, TEXTS, timeout_s=60, timer=timer))


async def test_a_valid_reply_is_returned_at_unit_length(timer: ManualTimer) -> None:
    provider = ScriptedProvider(lambda texts: good_reply(texts) * 7)
    reply = await outcome(provider, timer)
    assert isinstance(reply, np.ndarray)
    assert np.allclose(reply, good_reply(TEXTS), atol=1e-6)


def reply_with_row(value: float) -> Vectors:
    reply = good_reply(TEXTS)
    reply[1] = value
    return reply


def raise_texts(texts: Sequence[str]) -> Vectors:
    raise ValueError(texts)


@pytest.mark.parametrize(
    ("reply", "disposition"),
    [
        (lambda texts: good_reply(texts)[:2], Disposition.RETRY),
        (lambda texts: good_reply([*texts, "four"]), Disposition.RETRY),
        (lambda texts: good_reply(texts)[0], Disposition.RETRY),
        (lambda texts: good_reply(texts)[:, :5], Disposition.STOP),
        (lambda _: reply_with_row(np.nan), Disposition.SPLIT),
        (lambda _: reply_with_row(np.inf), Disposition.SPLIT),
        (lambda _: reply_with_row(0), Disposition.SPLIT),
        (lambda _: "no vectors at all", Disposition.RETRY),
        (lambda _: None, Disposition.RETRY),
        (failing(Disposition.BURY), Disposition.BURY),
        (raise_texts, Disposition.RETRY),
    ],
)
async def test_an_invalid_reply_is_a_failure(
    timer: ManualTimer, reply: object, disposition: Disposition
) -> None:
    result = await outcome(ScriptedProvider(reply), timer)  # type: ignore[arg-type]  # deliberately wrong
    assert isinstance(result, Failure)
    assert result.disposition is disposition
    assert not any(text in result.reason.split() for text in TEXTS)


async def test_a_hanging_call_ends_at_the_timeout(timer: ManualTimer) -> None:
    provider = ScriptedProvider()
    provider.gate.clear()
    started = timer.now()
    result = await outcome(provider, timer)
    reason = "the provider did not answer within 60 s"
    assert result == Failure(Disposition.RETRY, reason, is_silent=True)
    assert timer.now() == started + 60_000
    assert provider.hanging == 0


async def test_a_provider_that_cancels_itself_has_failed(timer: ManualTimer) -> None:
    def cancel(texts: Sequence[str]) -> Vectors:
        raise asyncio.CancelledError

    assert isinstance(await outcome(ScriptedProvider(cancel), timer), Failure)


async def test_cancelling_the_caller_cancels_the_providers_call(timer: ManualTimer) -> None:
    provider = ScriptedProvider()
    provider.gate.clear()
    task = asyncio.ensure_future(call_provider(provider, TEXTS, timeout_s=60, timer=timer))
    await timer.until(lambda: provider.hanging == 1)
    task.cancel()
    await timer.until(task.done)
    assert task.cancelled()
    assert provider.hanging == 0


async def test_an_unknown_dimension_is_not_checked(timer: ManualTimer) -> None:
    provider = ScriptedProvider()
    provider.dimension = 0
    reply = await outcome(provider, timer)
    assert isinstance(reply, np.ndarray)
    assert reply.shape == (3, DIMENSION)
