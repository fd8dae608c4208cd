"""Schedules requests fairly when there are more than can be processed at once.

The next request is one of the user with the fewest running requests, and within that user of the process
with the fewest; ties go to the one served least recently. While several users ask, each runs at most `SHARE`
requests at once, and rests after each as long as it took if more of its requests wait, because the share
counts requests, not what each costs. So a greedy client gets only the capacity that the others leave, and its
own requests wait for each other; a user who asks one question after the other never rests.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

W = TypeVar("W")

MAX_CONCURRENT: Final = 12
"""Maximum number of running requests. Fewer would leave the disk and the readers idle; with more, new
requests would wait for earlier ones regardless of user.
"""

SHARE: Final = 1
"""Maximum number of running requests of a user while others ask too."""
ACTIVE_S: Final = 10.0
"""Seconds for which a user counts as asking after a request."""
_TICK_S: Final = 0.001


@dataclass(slots=True)
class _Share:
    at_work: int = 0
    served: int = 0
    """Sequence number of its last admission."""

    @property
    def rank(self) -> tuple[int, int]:
        return self.at_work, self.served


@dataclass(slots=True)
class _Process(_Share, Generic[W]):
    waiting: deque[W] = field(default_factory=deque)


@dataclass(slots=True)
class _User(_Share, Generic[W]):
    processes: dict[int, _Process[W]] = field(default_factory=dict)
    waiting: int = 0


class FairQueue(Generic[W]):
    """Waiting and running requests, by user and process. Pure decisions."""

    def __init__(self) -> None:
        self._users: dict[int, _User[W]] = {}
        self._admissions = 0
        self._asked: dict[int, float] = {}
        """When each user last asked, for users seen within `ACTIVE_S`."""
        self._rests: dict[int, float] = {}
        """Until when each user rests."""

    def may_begin(self, uid: int, now: float) -> bool:
        """Note that a user asks at the time `now`, in seconds, and return whether its share allows it."""
        self._asked[uid] = now
        return self._is_within_share(uid, self._share(now), now)

    def rest_ends(self, now: float) -> float | None:
        """Return when the first of those who wait and rest may begin, or None."""
        ends = [self._rests.get(uid, now) for uid, user in self._users.items() if user.waiting]
        return min((end for end in ends if end > now), default=None)

    def _share(self, now: float) -> float:
        self._asked = {uid: at for uid, at in self._asked.items() if now - at < ACTIVE_S}
        self._rests = {uid: end for uid, end in self._rests.items() if end > now}
        return SHARE if len(self._asked.keys() | self._users.keys()) > 1 else math.inf

    def _is_within_share(self, uid: int, share: float, now: float) -> bool:
        user = self._users.get(uid)
        is_free = user is None or user.at_work < share
        return is_free and (share == math.inf or self._rests.get(uid, now) <= now)

    def wait(self, uid: int, pid: int, waiter: W) -> None:
        user = self._users.setdefault(uid, _User())
        user.processes.setdefault(pid, _Process()).waiting.append(waiter)
        user.waiting += 1

    def leave(self, uid: int, pid: int, waiter: W) -> bool:
        """Stop waiting. Return False if the waiter is already admitted, so that the caller must end it."""
        user = self._users[uid]
        process = user.processes[pid]
        if waiter not in process.waiting:
            return False
        process.waiting.remove(waiter)
        user.waiting -= 1
        self._tidy(uid, pid)
        return True

    def next(self, now: float = 0.0) -> W | None:
        """Admit the next waiter and return it, or None if nobody may begin."""
        share = self._share(now)
        users = [
            user
            for uid, user in self._users.items()
            if user.waiting and self._is_within_share(uid, share, now)
        ]
        if not users:
            return None
        user = _first(users)
        process = _first([process for process in user.processes.values() if process.waiting])
        user.waiting -= 1
        self._begin(user, process)
        return process.waiting.popleft()

    def begin(self, uid: int, pid: int) -> None:
        """Admit a request without waiting."""
        user = self._users.setdefault(uid, _User())
        self._begin(user, user.processes.setdefault(pid, _Process()))

    def end(self, uid: int, pid: int, *, began: float = 0.0, now: float = 0.0) -> None:
        """End a request; its user rests for as long as it took if more of its requests wait."""
        user = self._users[uid]
        if user.waiting:
            self._rests[uid] = max(self._rests.get(uid, now), 2 * now - began)
        user.at_work -= 1
        user.processes[pid].at_work -= 1
        self._tidy(uid, pid)

    def _begin(self, user: _User[W], process: _Process[W]) -> None:
        self._admissions += 1
        for share in (user, process):
            share.at_work += 1
            share.served = self._admissions

    def _tidy(self, uid: int, pid: int) -> None:
        """Remove users and processes without waiting or running requests."""
        user = self._users[uid]
        process = user.processes[pid]
        if not process.at_work and not process.waiting:
            del user.processes[pid]
        if not user.processes:
            del self._users[uid]


S = TypeVar("S", bound=_Share)


def _first(shares: Iterable[S]) -> S:
    return min(shares, key=lambda share: share.rank)


class RequestScheduler:
    """Limits running requests to `at_once`, with a fair queue for the rest. `clock` is in seconds."""

    def __init__(self, at_once: int = MAX_CONCURRENT, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = at_once
        self._clock = clock
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()

    def admit(self, uid: int, pid: int) -> _Admission:
        """Return a context that waits for admission and holds it, except during `yield_admission`."""
        return _Admission(self, uid, pid)

    def is_free(self, uid: int) -> bool:
        """Return whether a request of a user is admitted without waiting."""
        return self._queue.may_begin(uid, self._clock()) and self._free > 0

    async def acquire(self, uid: int, pid: int) -> None:
        """Wait for admission, which the caller must release."""
        if self.is_free(uid):
            self.acquire_now(uid, pid)
            return
        admitted = asyncio.get_running_loop().create_future()
        self._queue.wait(uid, pid, admitted)
        self._pass_on()  # which sets the end of a rest
        try:
            await admitted
        except asyncio.CancelledError:
            if not self._queue.leave(uid, pid, admitted):
                self.release(uid, pid)
            raise

    def acquire_now(self, uid: int, pid: int) -> None:
        """Admit a request even if none is free; later ones wait until the excess is released."""
        self._free -= 1
        self._queue.begin(uid, pid)

    def release(self, uid: int, pid: int, began: float | None = None) -> None:
        """Release an admission that began at this time; None: no work was done in it."""
        now = self._clock()
        self._queue.end(uid, pid, began=now if began is None else began, now=now)
        self._free += 1
        self._pass_on()

    def now(self) -> float:
        return self._clock()

    def _pass_on(self) -> None:
        now = self._clock()
        # More than one may begin if another user has not asked for a while.
        while self._free > 0 and (waiter := self._queue.next(now)) is not None:
            self._free -= 1
            if not waiter.done():  # otherwise cancelled: its waiter releases it
                waiter.set_result(None)
        if self._free > 0 and (end := self._queue.rest_ends(now)) is not None:
            asyncio.get_running_loop().call_later(end - now + _TICK_S, self._pass_on)


class _Admission:
    """The admission of one request. Its tasks may yield it concurrently and resume in any order."""

    def __init__(self, scheduler: RequestScheduler, uid: int, pid: int) -> None:
        self._scheduler = scheduler
        self._who = (uid, pid)
        self._aside = 0
        self._is_held = False
        self._is_awaited = False
        self._is_over = False
        self._began = 0.0
        self._outer: Token[_Admission | None] | None = None

    async def __aenter__(self) -> None:
        if self._scheduler.is_free(self._who[0]):
            self._acquire_now()
        else:
            await self.acquire()
        self._outer = _current.set(self)

    async def __aexit__(self, *_: object) -> None:
        if self._outer is not None:
            _current.reset(self._outer)
        self.end()

    async def acquire(self) -> None:
        self._is_awaited = True
        try:
            await self._scheduler.acquire(*self._who)
        finally:
            self._is_awaited = False
        self._is_held, self._began = True, self._scheduler.now()
        if self._is_over:
            self._release()

    def pause(self) -> None:
        self._aside += 1
        self._release()

    async def resume(self) -> None:
        self._aside -= 1
        if self._is_missing:
            try:
                await self.acquire()
            except asyncio.CancelledError:
                self._acquire_now()
                raise

    def resume_now(self) -> None:
        """Resume without waiting after a cancellation: little work is left, and its time is up."""
        self._aside -= 1
        self._acquire_now()

    def end(self) -> None:
        self._is_over = True
        self._release()

    @property
    def _is_missing(self) -> bool:
        """Whether the request runs without admission and none of its tasks waits for one."""
        return not (self._aside or self._is_held or self._is_awaited or self._is_over)

    def _acquire_now(self) -> None:
        if self._is_missing:
            self._scheduler.acquire_now(*self._who)
            self._is_held, self._began = True, self._scheduler.now()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._scheduler.release(*self._who, self._began)


_current: ContextVar[_Admission | None] = ContextVar("admission", default=None)


@asynccontextmanager
async def yield_admission() -> AsyncIterator[None]:
    """Give up the admission while waiting for another machine or a background task.

    Afterwards, wait for it again, unless the block was cancelled, as by a deadline. Does nothing outside of a
    request, as in background tasks.
    """
    admission = _current.get()
    if admission is None:
        yield
        return
    admission.pause()
    try:
        yield
    except asyncio.CancelledError:
        admission.resume_now()
        raise
    except BaseException:
        await admission.resume()
        raise
    await admission.resume()
