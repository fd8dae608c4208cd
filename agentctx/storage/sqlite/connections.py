"""What every part of the engine works with: the writer, the readers, the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentctx.sqlite.driver import Connection
from agentctx.sqlite.readers import Readers
from agentctx.sqlite.writer import Writer
from agentctx.storage.sqlite.audit_engine import SqliteAudit
from agentctx.storage.sqlite.checksums import Faults
from agentctx.storage.sqlite.tidying import Tidying
from agentctx.storage.sqlite.vector_copies import DEFAULT_MB, MEBIBYTE, VectorCopies
from agentctx.times import Clock

P = ParamSpec("P")
T = TypeVar("T")
CHECK_TIMEOUT_S = 60.0
MS_PER_HOUR = 3_600_000


class SqliteConnections:
    """One writer and several readers of a file, as `SqliteStorage.open` makes them."""

    def __init__(
        self,
        path: Path,
        writer: Writer,
        readers: Readers,
        *,
        clock: Clock,
        idempotency_hours: int,
        memory_mb: int = DEFAULT_MB,
    ) -> None:
        self._path = path
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._idempotency_ms = idempotency_hours * MS_PER_HOUR
        self._one_check = asyncio.Lock()
        self._rebuilding = asyncio.Lock()
        self.words_shortfall: str | None = None
        self._tidying = Tidying(writer)
        self.audit = SqliteAudit(writer, readers, clock)
        self._copies = VectorCopies(readers, memory_mb * MEBIBYTE)
        self.faults = Faults()
        """What did not match its checksum."""

    async def _check(self, fn: Callable[[Connection], T]) -> T:
        """Run one check at a time: each holds a reader for as long as it takes."""
        async with self._one_check:
            return await self._readers.run(fn, timeout_s=CHECK_TIMEOUT_S)

    async def _removing(self, fn: Callable[[Connection], T]) -> T:
        """Run a function that removes something, and remember that it did, also when the caller is gone."""
        try:
            return await self._writer.run(fn)
        finally:
            self._tidying.note_deletion()

    async def _repeat(self, step: Callable[[Connection], int]) -> int:
        """Run a bounded step, each time in a transaction of its own, until it finds nothing to do."""
        total = 0
        while changed := await self._removing(step):
            total += changed
        return total


def writes(
    function: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqliteConnections, P], Coroutine[Any, Any, T]]:
    """A method that runs the function as one transaction of the writer."""

    async def method(self: SqliteConnections, /, *args: P.args, **given: P.kwargs) -> T:
        return await self._writer.run(lambda conn: function(conn, *args, **given))

    method.__doc__ = function.__doc__
    return method


def reads(
    function: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqliteConnections, P], Coroutine[Any, Any, T]]:
    """A method that runs the function in a reader."""

    async def method(self: SqliteConnections, /, *args: P.args, **given: P.kwargs) -> T:
        return await self._readers.run(lambda conn: function(conn, *args, **given))

    method.__doc__ = function.__doc__
    return method
