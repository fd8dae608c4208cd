"""Requests of imaginary users."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding import fair_queue
from agentctx.embedding.fair_queue import MAX_CONCURRENT, FairQueue, yield_admission
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import RateLimited
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import READ
from agentctx.service.audit import AuditTrail
from agentctx.service.base import Peer
from agentctx.service.guard import Guard
from agentctx.service.guard_rules import AccessContext
from agentctx.service.operations import Operation
from agentctx.wire import SaveRequest, SaveResult, SearchRequest
from tests.running_core import ME, embedded, guarded, running_core
from tests.service.access.peers import access_control, grant

ALICE, BOB, CAROL = 8_001, 8_002, 8_003


class Work:
    """Requests that last until released, by name."""

    def __init__(self, at_once: int, share: int) -> None:
        self.queue = FairQueue(at_once, share)
        self.began: list[str] = []
        self.running: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str, uid: int) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._do(name, uid))

    async def _do(self, name: str, uid: int) -> None:
        async with self.queue.admit(uid):
            self.began.append(name)
            self.running.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.running.remove(name)

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
            await settled()


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def is_empty(queue: FairQueue) -> bool:
    return not queue._running and not queue._waiting


async def test_one_user_has_everything_and_is_served_in_order() -> None:
    work = Work(at_once=2, share=1)
    tasks = [work.ask(name, ALICE) for name in "abcd"]
    await settled()
    assert work.running == ["a", "b"]
    await work.end("b", "a", "c", "d")
    assert work.began == list("abcd")
    await asyncio.gather(*tasks)
    assert is_empty(work.queue)


async def test_users_are_served_in_turn_whatever_they_ask() -> None:
    work = Work(at_once=1, share=1)
    tasks = [work.ask(f"a{number}", ALICE) for number in range(5)]
    tasks += [work.ask(name, uid) for name, uid in (("b0", BOB), ("b1", BOB), ("c0", CAROL))]
    await settled()
    for _ in tasks:
        await work.end(work.running[0])
    assert work.began == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4"]
    assert is_empty(work.queue)


async def test_while_others_ask_a_user_has_only_its_share() -> None:
    work = Work(at_once=3, share=2)
    tasks = [work.ask(f"a{number}", ALICE) for number in range(5)]
    await settled()
    assert len(work.running) == 3, "alone, it has everything"
    tasks.append(work.ask("b0", BOB))
    await settled()
    await work.end("a0")
    assert work.running == ["a1", "a2", "b0"]
    await work.end("a1")
    assert work.running == ["a2", "b0", "a3"]
    await work.end("a2", "b0")
    assert work.running == ["a3", "a4"]
    await work.end("a3", "a4")
    await asyncio.gather(*tasks)


async def test_a_user_has_everything_again_when_the_others_stop_waiting() -> None:
    work = Work(at_once=2, share=1)
    tasks = [work.ask(name, ALICE) for name in ("a0", "a1")]
    await settled()
    leaving = work.ask("b0", BOB)
    await settled()
    tasks.append(work.ask("a2", ALICE))
    leaving.cancel()
    await settled()
    await work.end("a0")
    assert work.running == ["a1", "a2"]
    await work.end("a1", "a2")
    assert is_empty(work.queue)


async def test_a_users_queue_is_bounded_and_that_of_others_is_not_affected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_queue, "MAX_WAITING", 2)
    work = Work(at_once=1, share=1)
    tasks = [work.ask(f"a{number}", ALICE) for number in range(3)]
    await settled()
    with pytest.raises(RateLimited) as caught:
        await work.ask("a3", ALICE)
    assert caught.value.retry_after_s == fair_queue.RETRY_S
    tasks.append(work.ask("b0", BOB))
    await settled()
    await work.end("a0", "a1", "b0", "a2")
    await asyncio.gather(*tasks)
    assert is_empty(work.queue)


async def test_the_admission_of_a_failed_request_is_passed_on() -> None:
    queue = FairQueue(1)
    for _ in range(3):
        with suppress(OSError):
            async with queue.admit(ALICE):
                raise OSError
    assert is_empty(queue)


async def test_a_cancelled_request_does_not_lose_its_admission() -> None:
    """Cancel while it works, while it waits, and between its admission and its wake-up."""
    work = Work(at_once=1, share=1)
    working, waiting, next_one = (work.ask(name, ALICE) for name in ("working", "waiting", "next"))
    await settled()
    waiting.cancel()
    working.cancel()
    next_one.cancel()
    last = work.ask("last", BOB)
    await settled()
    assert work.running == ["last"]
    await work.end("last")
    await last
    assert is_empty(work.queue)


async def test_an_admission_of_a_cancelled_request_is_passed_on() -> None:
    queue = FairQueue(1)
    await queue.acquire(ALICE)
    gone = asyncio.create_task(queue.acquire(ALICE))
    last = asyncio.create_task(queue.acquire(BOB))
    await settled()
    queue.release(ALICE)
    gone.cancel()
    async with asyncio.timeout(5):
        await last
    assert gone.cancelled()


async def test_who_steps_aside_lets_another_in_and_waits_to_come_back() -> None:
    queue, order, answered = FairQueue(1), list[str](), asyncio.Event()

    async def ask_another_machine() -> None:
        async with queue.admit(ALICE):
            async with yield_admission():
                order.append("asks")
                await answered.wait()
            order.append("continues")

    asking = asyncio.create_task(ask_another_machine())
    await settled()
    async with queue.admit(BOB):
        answered.set()
        await settled()
        order.append("other")
    await asking
    assert order == ["asks", "other", "continues"]
    assert is_empty(queue)


async def test_two_tasks_of_a_request_step_aside_and_it_is_admitted_once_again() -> None:
    queue = FairQueue(1)
    answered = [asyncio.Event(), asyncio.Event()]

    async def ask(number: int) -> None:
        async with yield_admission():
            await answered[number].wait()

    async def request() -> None:
        async with queue.admit(ALICE):
            await asyncio.gather(ask(0), ask(1))
            assert queue._running == {ALICE: 1}

    asking = asyncio.create_task(request())
    await settled()
    assert is_empty(queue)
    for event in answered:
        event.set()
    await asking
    assert is_empty(queue)


async def test_a_cancelled_pause_resumes_immediately_before_others() -> None:
    queue, never, limit = FairQueue(1), asyncio.Event(), asyncio.timeout(None)

    async def cut_off() -> int:
        async with queue.admit(ALICE):
            with suppress(TimeoutError):
                async with limit, yield_admission():
                    await never.wait()
            return queue._running.total()

    asking = asyncio.create_task(cut_off())
    await settled()
    async with queue.admit(BOB):
        limit.reschedule(asyncio.get_running_loop().time())
        assert await asking == 2
    assert is_empty(queue)


async def test_a_cancelled_return_resumes_immediately() -> None:
    queue = FairQueue(1)

    async def cut_off() -> int:
        async with queue.admit(ALICE):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    async with yield_admission():
                        await asyncio.sleep(0)
            return queue._running.total()

    asking = asyncio.create_task(cut_off())
    await asyncio.sleep(0)
    async with queue.admit(BOB):
        assert await asking == 2
    assert is_empty(queue)


async def test_a_task_that_outlives_its_request_has_no_admission_to_give_away() -> None:
    queue, asks, answered = FairQueue(1), asyncio.Event(), asyncio.Event()

    async def background() -> None:
        async with yield_admission():
            asks.set()
            await answered.wait()
        async with yield_admission():
            pass

    async with queue.admit(ALICE):
        task = asyncio.create_task(background())
        await asks.wait()
    answered.set()
    await task
    assert is_empty(queue)


@given(st.randoms(use_true_random=False))
def test_every_admission_is_released_and_everybody_is_served(rng: random.Random) -> None:
    queue, served = FairQueue(2, 1), Counter[bool]()

    async def rest() -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)

    async def step() -> None:
        for _ in range(rng.randrange(3)):
            await rest()
            with suppress(TimeoutError):
                async with asyncio.timeout(rng.choice([0, None])):
                    async with yield_admission():
                        await rest()

    async def request() -> None:
        await rest()
        async with queue.admit(rng.choice([ALICE, BOB])):
            await asyncio.gather(*(step() for _ in range(rng.randint(1, 3))))
        served[True] += 1

    async def twenty_requests() -> None:
        requests = [asyncio.create_task(request()) for _ in range(20)]
        await settled()
        cancelled = sum(one.cancel() for one in rng.sample(requests, 4))
        async with asyncio.timeout(10):
            await asyncio.gather(*requests, return_exceptions=True)
        assert served[True] >= 20 - cancelled

    asyncio.run(twenty_requests())
    assert is_empty(queue)


async def test_saves_waiting_for_vectors_do_not_block_searches(tmp_path: Path) -> None:
    provider = FakeProvider()
    async with running_core(tmp_path, provider) as core:
        await embedded(core)
        service = guarded(core, access_control())
        provider.hold(queries=False)
        waiting = [
            asyncio.create_task(
                service.save(
                    [SaveRequest(collection="observation", session="s", content=f"{n}", wait="embedded")], ME
                )
            )
            for n in range(2 * MAX_CONCURRENT)
        ]
        await provider.wait_until_held()
        async with asyncio.timeout(10):
            assert (await service.search(SearchRequest(query="anything"), ME)).degraded is None
        assert not any(task.done() for task in waiting)
        provider.release()
        saved = [result for task in waiting for result in await task]
    assert {result.embedding for result in saved if isinstance(result, SaveResult)} == {"done"}


class SlowService:
    """Answers no search until allowed to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    @Operation("POST", "/search", READ, rules.in_searched)
    async def search(self, request: SearchRequest, peer: Peer) -> str:
        self.asked.append(f"{peer.uid} {request.query}")
        await self.may_answer.wait()
        return request.query


async def nothing(_: str) -> None:
    """No id names anything."""


async def test_a_search_during_another_users_flood_is_next() -> None:
    service, mine = SlowService(), 8_002
    access = access_control(grant("read", "*", uid=ALICE), grant("read", "*", uid=mine))
    guard = Guard(AccessContext(access, nothing, nothing), cast("AuditTrail", None))
    fair_search = guard(service.search)
    service.may_answer.set()
    for uid in (ALICE, mine):  # what is known of users is looked up in a thread, once
        await fair_search(SearchRequest(query="first"), Peer(pid=1, uid=uid, gid=1))
    service.may_answer.clear()
    service.asked.clear()
    flood = [
        asyncio.create_task(fair_search(SearchRequest(query=str(number)), Peer(pid=1, uid=ALICE, gid=1)))
        for number in range(100)
    ]
    await settled()
    polite = asyncio.create_task(fair_search(SearchRequest(query="me"), Peer(pid=2, uid=mine, gid=1)))
    await settled()
    assert len(service.asked) == MAX_CONCURRENT
    service.may_answer.set()
    await asyncio.gather(*flood, polite)
    assert service.asked.index(f"{mine} me") == MAX_CONCURRENT
