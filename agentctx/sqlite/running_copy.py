"""A copy of the database that is being made through the writing connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from agentctx.errors import StorageFailed
from agentctx.sqlite.connection_thread import finish
from agentctx.sqlite.driver import Connection


class RunningCopy:
    """One copy, made by a function that runs outside of the connection's own thread.

    `stop` ends the function. With `gives_way` the copy is ended if the connection has to be closed.
    """

    def __init__(
        self,
        copy: Callable[[Connection], None],
        connection: Connection,
        stop: threading.Event,
        *,
        gives_way: bool,
    ) -> None:
        self._work = asyncio.ensure_future(asyncio.to_thread(copy, connection))
        self._stop = stop
        self._gives_way = gives_way
        self._reopens = False
        self._gave_way = False

    async def result(self) -> bool:
        """Wait for the copy; return False if it gave way.

        Raises:
            StorageFailed: the copy was ended because the connection had to be closed.
            Exception: raised by the function.
        """
        try:
            await asyncio.wait([self._work])
        except asyncio.CancelledError:
            await self.end()
            self._work.exception()  # retrieved, so that asyncio does not report it as lost
            raise
        error = self._work.exception()
        if error is None:
            return True
        if self._gave_way:
            return False
        if not self._reopens:
            raise error
        raise StorageFailed(
            "The copy was stopped: the disk failed, and the database is being reopened.",
            hint="Start it again.",
        ) from error

    async def end(self, *, reopens: bool = True) -> None:
        """Stop the copy and wait for its end. `reopens`: the database is reopened, so it can be repeated."""
        self._reopens = reopens
        self._stop.set()
        await finish(asyncio.ensure_future(asyncio.wait([self._work])))

    async def give_way(self) -> None:
        """End the copy. Raises `StorageFailed` if the copy does not give way."""
        if not self._gives_way:
            raise StorageFailed("The database is being copied and cannot be closed.")
        self._gave_way = True
        await self.end()
