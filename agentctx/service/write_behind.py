"""A bounded write-behind buffer for a table: replies neither wait for its writes nor fail with them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, Generic, TypeVar

from agentctx.errors import StorageFailed

Row = TypeVar("Row")

BATCH: Final = 256
LINGER_S: Final = 0.25
"""Rows that arrive within this time share a commit."""


class WriteBehind(ABC, Generic[Row]):
    """A buffer of rows that are written to a table in order.

    A row is dropped if `capacity` rows are waiting, if it is not written in time at shutdown, or if the write
    fails. `linger` pauses for the given number of seconds.
    """

    def __init__(
        self, *, capacity: int, linger: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._capacity = capacity
        self._linger = linger
        self._waiting: deque[Row] = deque()
        self._arrived = asyncio.Event()
        self._one_flush = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None

    @abstractmethod
    async def _write(self, batch: list[Row]) -> None:
        """Write the rows. Raises `StorageFailed`."""

    @abstractmethod
    def _drop(self, count: int, reason: str) -> None:
        """Report that `count` rows were dropped."""

    def add(self, row: Row) -> None:
        """Add a row, to be written soon."""
        if len(self._waiting) >= self._capacity:
            self._drop(1, "the buffer is full")
            return
        self._waiting.append(row)
        self._arrived.set()

    async def run(self) -> None:
        """Write rows in batches as they arrive, until cancelled."""
        while True:
            await self._arrived.wait()
            await self._linger(LINGER_S)
            await self.flush()

    async def flush(self) -> None:
        """Write all waiting rows."""
        async with self._one_flush:
            self._arrived.clear()
            while self._waiting:
                if self._writing is None or self._writing.done():
                    self._writing = asyncio.create_task(self._write_some())
                # Shielded: if the caller is cancelled meanwhile, the rows must not be written twice.
                await asyncio.shield(self._writing)

    async def stop(self, timeout_s: float) -> None:
        """Write the remaining rows; drop those not written within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            if self._writing is not None:
                self._writing.cancel()
            self._drop(len(self._waiting), "the daemon is stopping")

    async def _write_some(self) -> None:
        batch = list(islice(self._waiting, BATCH))
        try:
            await self._write(batch)
        except StorageFailed as error:
            self._drop(len(batch), error.message)
        for _ in batch:
            self._waiting.popleft()
