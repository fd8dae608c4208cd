"""Requests of imaginary processes and users."""

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

from agentctx.embedding.fair_queue import (
    ACTIVE_S,
    MAX_CONCURRENT,
    SHARE,
    FairQueue,
    RequestScheduler,
    yield_admission,
)
from agentctx.embedding.providers.fake import FakeProvider
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

Client = tuple[int, int]
"""uid and pid."""
ALICE, HER_OTHER, BOB = (8_001, 1), (8_001, 2), (8_002, 3)


def queue_of(*waiting: Client) -> FairQueue[Client]:
    queue: FairQueue[Client] = FairQueue()
    for client in waiting:
        queue.wait(*client, client)
    return queue


def served(queue: FairQueue[Client], count: int) -> list[Client | None]:
    """Return who is served this many times, each request ending before the next."""
    order = []
    for _ in range(count):
        client = queue.next()
        if client is not None:
            queue.end(*client)
        order.append(client)
    return order


def test_one_client_is_served_in_the_order_in_which_it_asked() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(3):
        queue.wait(*ALICE, number)
    assert [queue.next() for _ in range(4)] == [0, 1, 2, None]


def test_a_single_request_precedes_the_second_of_a_flood() -> None:
    queue = queue_of(*[ALICE] * 100, HER_OTHER)
    assert served(queue, 3) == [ALICE, HER_OTHER, ALICE]


def test_who_has_a_running_request_waits_behind_who_has_none() -> None:
    queue = queue_of(ALICE, ALICE)
    assert queue.next() == ALICE
    queue.wait(*HER_OTHER, HER_OTHER)
    assert queue.next() == HER_OTHER


def test_ten_processes_of_one_user_share_one_users_share() -> None:
    alice = [(ALICE[0], pid) for pid in range(10)]
    order = served(queue_of(*alice * 10, *[BOB] * 10), 20)
    assert Counter(order)[BOB] == 10


@given(st.lists(st.sampled_from([ALICE, HER_OTHER, BOB]), min_size=1, max_size=40), st.integers(1, 5))
def test_everybody_who_waits_is_served(asked: list[Client], at_once: int) -> None:
    queue = queue_of(*asked)
    at_work: list[Client] = []
    got: list[Client] = []
    while len(got) < len(asked):
        client = queue.next()
        if client is not None:
            got.append(client)
            at_work.append(client)
        if client is None or len(at_work) == at_once:
            queue.end(*at_work.pop(0))
    assert queue.next() is None
    assert Counter(got) == Counter(asked)


def test_while_others_ask_a_user_has_only_its_share() -> None:
    queue = queue_of(*[ALICE] * 4, *[HER_OTHER] * 4)
    assert [queue.next(0.0) for _ in range(4)] == [ALICE, HER_OTHER] * 2, "alone, it has everything"
    assert queue.may_begin(BOB[0], 1.0)
    assert queue.next(1.0) is None, "it has more than its share"
    for client in (ALICE, HER_OTHER, ALICE, HER_OTHER):
        queue.end(*client, began=0.9, now=1.0)
    assert queue.next(1.05) is None, "it rests as long as a request took"
    assert queue.rest_ends(1.05) == pytest.approx(1.1)
    assert queue.next(1.2) is not None
    assert queue.next(1.2) is None
    assert not queue.may_begin(ALICE[0], 1.2)
    assert queue.next(1.0 + ACTIVE_S) is not None, "nobody else has asked for a while"


def test_whoever_asks_one_question_after_the_other_does_not_rest() -> None:
    queue = queue_of(ALICE, ALICE)
    for client in (ALICE, BOB):
        assert queue.may_begin(client[0], 0.0)
    queue.begin(*BOB)
    assert queue.next(0.0) == ALICE
    for client in (ALICE, BOB):
        queue.end(*client, began=0.0, now=1.0)
    assert queue.may_begin(BOB[0], 1.0)
    assert not queue.may_begin(ALICE[0], 1.0), "more of hers wait"


async def test_whoever_waited_for_its_share_begins_when_the_others_are_gone() -> None:
    now = [0.0]
    scheduler = RequestScheduler(4, lambda: now[0])
    await scheduler.acquire(*BOB)
    for _ in range(SHARE):
        await scheduler.acquire(*ALICE)
    waiting = [asyncio.create_task(scheduler.acquire(*ALICE)) for _ in range(2)]
    await settled()
    scheduler.release(*BOB)
    await settled()
    assert not any(task.done() for task in waiting)
    now[0] = ACTIVE_S
    scheduler.release(*ALICE)
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)


@given(st.lists(st.sampled_from([ALICE, HER_OTHER, BOB]), max_size=40))
def test_while_two_users_wait_neither_is_ahead_by_more_than_one(asked: list[Client]) -> None:
    queue, waiting, had = queue_of(*asked), Counter(uid for uid, _ in asked), Counter[int]()
    while len(+waiting) == 2:
        client = queue.next()
        assert client is not None
        queue.end(*client)
        waiting[client[0]] -= 1
        had[client[0]] += 1
        assert abs(had[ALICE[0]] - had[BOB[0]]) <= 1


def test_who_left_is_not_served_and_is_forgotten() -> None:
    queue = queue_of(ALICE, BOB)
    assert queue.leave(*ALICE, ALICE)
    assert served(queue, 2) == [BOB, None]
    assert not queue._users


class Work:
    """Requests that last until released."""

    def __init__(self, at_once: int) -> None:
        self.scheduler = RequestScheduler(at_once)
        self.at_work: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str, client: Client) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._do(name, client))

    async def _do(self, name: str, client: Client) -> None:
        async with self.scheduler.admit(*client):
            self.at_work.append(name)
            try:
                await self.ends[name].wait()
            finally:
                self.at_work.remove(name)


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_concurrency_is_limited() -> None:
    work = Work(at_once=2)
    tasks = [work.ask(name, ALICE) for name in "abc"]
    await settled()
    assert work.at_work == ["a", "b"]
    work.ends["a"].set()
    await settled()
    assert work.at_work == ["b", "c"]
    for end in work.ends.values():
        end.set()
    await asyncio.gather(*tasks)


async def test_the_admission_of_a_failed_request_is_passed_on() -> None:
    scheduler = RequestScheduler(1)
    for _ in range(3):
        try:
            async with scheduler.admit(*ALICE):
                raise OSError
        except OSError:
            pass
    async with asyncio.timeout(5), scheduler.admit(*BOB):
        pass


async def test_a_cancelled_request_does_not_lose_its_admission() -> None:
    """Cancel while it works, while it waits, and between its admission and its wake-up."""
    work = Work(at_once=1)
    working, waiting, next_one = (work.ask(name, ALICE) for name in ("working", "waiting", "next"))
    await settled()
    waiting.cancel()
    working.cancel()
    next_one.cancel()
    last = work.ask("last", BOB)
    await settled()
    assert work.at_work == ["last"]
    work.ends["last"].set()
    await last
    assert not work.scheduler._queue._users
    assert work.scheduler._free == 1


async def test_an_admission_of_a_cancelled_request_is_passed_on() -> None:
    scheduler = RequestScheduler(1)
    taken = scheduler.admit(*ALICE)
    await taken.__aenter__()
    gone = asyncio.create_task(scheduler.acquire(*ALICE))
    last = asyncio.create_task(scheduler.acquire(*BOB))
    await settled()
    await taken.__aexit__(None, None, None)
    gone.cancel()
    async with asyncio.timeout(5):
        await last
    assert gone.cancelled()


async def test_who_steps_aside_lets_another_in_and_waits_to_come_back() -> None:
    scheduler, order = RequestScheduler(1), list[str]()
    answered = asyncio.Event()

    async def ask_another_machine() -> None:
        async with scheduler.admit(*ALICE):
            async with yield_admission():
                order.append("asks")
                await answered.wait()
            order.append("continues")

    asking = asyncio.create_task(ask_another_machine())
    await settled()
    async with scheduler.admit(*BOB):
        answered.set()
        await settled()
        order.append("other")
    await asking
    assert order == ["asks", "other", "continues"]
    assert scheduler._free == 1


async def test_two_tasks_of_a_request_step_aside_and_it_is_admitted_once_again() -> None:
    scheduler = RequestScheduler(1)
    answered = [asyncio.Event(), asyncio.Event()]

    async def ask(number: int) -> None:
        async with yield_admission():
            await answered[number].wait()

    async def request() -> None:
        async with scheduler.admit(*ALICE):
            await asyncio.gather(ask(0), ask(1))
            assert scheduler._free == 0

    asking = asyncio.create_task(request())
    await settled()
    assert scheduler._free == 1
    answered[0].set()
    await settled()
    assert scheduler._free == 1, "one of them still waits"
    answered[1].set()
    await asking
    assert scheduler._free == 1


async def test_a_request_cancelled_while_paused_leaves_no_admission_behind() -> None:
    scheduler, never = RequestScheduler(1), asyncio.Event()

    async def request() -> None:
        async with scheduler.admit(*ALICE), yield_admission():
            await never.wait()

    asking = asyncio.create_task(request())
    await settled()
    async with scheduler.admit(*BOB):
        asking.cancel()
        await settled()
    await asyncio.wait([asking])
    assert scheduler._free == 1
    assert not scheduler._queue._users


async def test_a_cancelled_pause_resumes_immediately_before_others() -> None:
    scheduler, never, limit = RequestScheduler(1), asyncio.Event(), asyncio.timeout(None)

    async def cut_off() -> bool:
        async with scheduler.admit(*ALICE):
            with suppress(TimeoutError):
                async with limit, yield_admission():
                    await never.wait()
            return scheduler._free == -1

    asking = asyncio.create_task(cut_off())
    await settled()
    async with scheduler.admit(*BOB):
        limit.reschedule(asyncio.get_running_loop().time())
        assert await asking
    assert scheduler._free == 1
    assert not scheduler._queue._users


async def test_a_cancelled_return_resumes_immediately() -> None:
    scheduler = RequestScheduler(1)

    async def cut_off() -> None:
        async with scheduler.admit(*ALICE):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    async with yield_admission():
                        await asyncio.sleep(0)
            assert scheduler._free == -1

    asking = asyncio.create_task(cut_off())
    await asyncio.sleep(0)
    async with scheduler.admit(*BOB):
        await asking
    assert scheduler._free == 1
    assert not scheduler._queue._users


async def test_nobody_enters_while_nothing_is_free() -> None:
    scheduler = RequestScheduler(1)
    scheduler.acquire_now(*ALICE)
    scheduler.acquire_now(*ALICE)
    waiting = asyncio.create_task(scheduler.acquire(*BOB))
    await settled()
    scheduler.release(*ALICE)
    await settled()
    assert not waiting.done()
    scheduler.release(*ALICE)
    await waiting
    scheduler.release(*BOB)
    assert scheduler._free == 1


async def test_one_task_steps_aside_while_another_waits_to_come_back_and_one_is_admitted() -> None:
    scheduler, other_asks = RequestScheduler(1), asyncio.Event()

    async def ask(*, late: bool) -> None:
        if late:
            await other_asks.wait()
        async with yield_admission():
            await asyncio.sleep(0)

    async def request() -> None:
        async with scheduler.admit(*ALICE):
            await asyncio.gather(ask(late=False), ask(late=True))
            assert scheduler._free == 0

    asking = asyncio.create_task(request())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    async with scheduler.admit(*BOB):
        await settled()
        other_asks.set()
        await settled()
    async with asyncio.timeout(10):
        await asking
    assert scheduler._free == 1
    assert not scheduler._queue._users


async def test_every_admission_is_released_whatever_the_tasks_of_requests_do() -> None:
    for seed in range(100):
        scheduler = RequestScheduler(2)
        async with asyncio.timeout(10):
            await busy_with_requests(scheduler, random.Random(seed))
        assert (scheduler._free, scheduler._queue._users) == (2, {}), f"seed {seed}"


async def busy_with_requests(scheduler: RequestScheduler, rng: random.Random) -> None:
    """Run twenty requests of several tasks, which yield and are cancelled at random."""

    async def rest() -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)

    async def step() -> None:
        for _ in range(rng.randrange(3)):
            await rest()
            with suppress(TimeoutError):
                async with asyncio.timeout(rng.choice([0, 0.001, None])):
                    async with yield_admission():
                        await rest()

    async def request() -> None:
        await rest()
        async with scheduler.admit(8_000 + rng.randrange(2), rng.randrange(2)):
            await asyncio.gather(*(step() for _ in range(rng.randint(1, 3))))

    requests = [asyncio.create_task(request()) for _ in range(20)]
    await settled()
    for gone in rng.sample(requests, 4):
        gone.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
    await settled()


async def test_a_task_that_outlives_its_request_has_no_admission_to_give_away() -> None:
    scheduler, asks, answered = RequestScheduler(1), asyncio.Event(), asyncio.Event()

    async def background() -> None:
        await asks.wait()
        async with yield_admission():
            await answered.wait()

    async with scheduler.admit(*ALICE):
        task = asyncio.create_task(background())
    asks.set()
    answered.set()
    await task
    assert scheduler._free == 1


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
        self.asked.append(f"{peer.pid} {request.query}")
        await self.may_answer.wait()
        return request.query


async def nothing(_: str) -> None:
    """No id names anything."""


async def test_a_search_during_another_processs_flood_is_next() -> None:
    service, uid = SlowService(), 8_001
    access = access_control(grant("read", "*", uid=uid))
    guard = Guard(AccessContext(access, nothing, nothing), cast("AuditTrail", None))
    fair_search = guard(service.search)
    flood = [
        asyncio.create_task(fair_search(SearchRequest(query=str(number)), Peer(pid=1, uid=uid, gid=uid)))
        for number in range(100)
    ]
    await settled()
    polite = asyncio.create_task(fair_search(SearchRequest(query="me"), Peer(pid=2, uid=uid, gid=uid)))
    await settled()
    assert len(service.asked) == MAX_CONCURRENT
    service.may_answer.set()
    await asyncio.gather(*flood, polite)
    assert service.asked.index("2 me") == MAX_CONCURRENT
