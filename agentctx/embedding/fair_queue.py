"""Shares the daemon among its users when there are more requests than can be processed at once.

Each user has a queue of limited length, and the queues are served in turn. While several users ask, none runs
more than `SHARE` requests at once, so there is always room for the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar, Token
from typing import Final

from agentctx.errors import RateLimited

MAX_CONCURRENT: Final = 12
"""Maximum number of running requests. Fewer would leave the disk and the readers idle; with more, new
requests would wait for earlier ones regardless of user.
"""
SHARE: Final = MAX_CONCURRENT // 2
"""Maximum number of running requests of a user while others have requests, too."""
MAX_WAITING: Final = 1_000
"""Maximum number of waiting requests of a user."""
RETRY_S: Final = 1.0


class FairQueue:
    """Limits running requests to `at_once`, and serves the waiting ones of all users in turn."""

    def __init__(self, at_once: int = MAX_CONCURRENT, share: int = SHARE) -> None:
        self._at_once = at_once
        self._share = share
        self._running: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        """By uid, in the order in which users are served."""

    def admit(self, uid: int) -> AbstractAsyncContextManager[None]:
        """Wait for admission in an `async with` and hold it, except during `yield_admission`.

        Raises:
            RateLimited: `MAX_WAITING` requests of this user wait already.
        """
        return _Admission(self, uid)

    def require_room(self, uid: int) -> None:
        """Raise `RateLimited` if `MAX_WAITING` requests of this user wait already."""
        if len(self._waiting.get(uid, ())) >= MAX_WAITING:
            raise RateLimited(
                f"{MAX_WAITING} of your requests wait already.",
                hint="Send fewer requests at once, and wait for the time in Retry-After.",
                retry_after_s=RETRY_S,
            )

    async def acquire(self, uid: int) -> None:
        """Wait for admission, which the caller must release."""
        if self._may_run(uid) and uid not in self._waiting:
            self.acquire_now(uid)
            return
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, deque()).append(admitted)
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._leave(uid, admitted)
            else:
                self.release(uid)
            raise

    def acquire_now(self, uid: int) -> None:
        """Admit a request even if none is free; later ones wait until the excess is released."""
        self._running[uid] += 1

    def release(self, uid: int) -> None:
        self._running[uid] -= 1
        if not self._running[uid]:
            del self._running[uid]
        self._admit_next()

    def _may_run(self, uid: int) -> bool:
        is_alone = not (self._running.keys() | self._waiting.keys()) - {uid}
        return self._running.total() < self._at_once and (is_alone or self._running[uid] < self._share)

    def _leave(self, uid: int, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(uid, deque())
        if waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiting[uid]
                self._admit_next()  # another user may be alone now

    def _admit_next(self) -> None:
        while (uid := next(filter(self._may_run, self._waiting), None)) is not None:
            queue = self._waiting.pop(uid)
            admitted = queue.popleft()
            if queue:
                self._waiting[uid] = queue  # behind the other users
            if not admitted.cancelled():
                self.acquire_now(uid)
                admitted.set_result(None)


class _Admission(AbstractAsyncContextManager[None]):
    """The admission of one request, which one of its tasks at a time may give up.

    A class, because a generator as context manager takes twice as long, and every request has one.
    """

    def __init__(self, queue: FairQueue, uid: int) -> None:
        self._queue = queue
        self._uid = uid
        self._is_held = False
        self._is_over = False
        self._outer: Token[_Admission | None]

    async def __aenter__(self) -> None:
        self._queue.require_room(self._uid)
        await self.acquire()
        self._outer = _current.set(self)

    async def __aexit__(self, *_: object) -> None:
        _current.reset(self._outer)
        self.end()

    async def acquire(self) -> None:
        await self._queue.acquire(self._uid)
        self._is_held = True
        if self._is_over:
            self.give_up()

    def acquire_now(self) -> None:
        if not self._is_over:
            self._queue.acquire_now(self._uid)
            self._is_held = True

    def give_up(self) -> bool:
        """Return whether there was one: another task of the request may have given it up."""
        was_held, self._is_held = self._is_held, False
        if was_held:
            self._queue.release(self._uid)
        return was_held

    async def resume(self) -> None:
        if not self._is_over:
            try:
                await self.acquire()
            except asyncio.CancelledError:
                self.acquire_now()
                raise

    def end(self) -> None:
        self._is_over = True
        self.give_up()


_current: ContextVar[_Admission | None] = ContextVar("admission", default=None)


@asynccontextmanager
async def yield_admission() -> AsyncIterator[None]:
    """Give up the admission while waiting for another machine or a background task.

    Afterwards, wait for it again, unless the block was cancelled, as by a deadline: then little work is left.
    Does nothing outside of a request, as in background tasks.
    """
    admission = _current.get()
    if admission is None or not admission.give_up():
        yield
        return
    try:
        yield
    except asyncio.CancelledError:
        admission.acquire_now()
        raise
    except BaseException:
        await admission.resume()
        raise
    await admission.resume()
