"""The connections that all parts of the engine share: the writer, the readers, the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from agentctx.storage.faults import Faults, ReadContext
from agentctx.storage.file.driver import Connection
from agentctx.storage.file.readers import READ_TIMEOUT_S, Readers
from agentctx.storage.file.writer import Writer
from agentctx.storage.offline import MEBIBYTE
from agentctx.storage.sqlite.search.postings_cache import DEFAULT_MB as WORDS_MB
from agentctx.storage.sqlite.search.postings_cache import PostingsCache
from agentctx.storage.sqlite.upkeep.tidying import Tidier
from agentctx.storage.sqlite.vectors.vector_caches import DEFAULT_MB, VectorCaches
from agentctx.times import Clock

P = ParamSpec("P")
T = TypeVar("T")
Query: TypeAlias = Callable[Concatenate[Connection, P], T]
"""A function of a connection; it returns rows or facts, never a cursor."""
CHECK_TIMEOUT_S = 60.0
Method: TypeAlias = Callable[Concatenate["SqlitePart", P], Coroutine[Any, Any, T]]


class SqliteConnections:
    """One writer and several readers of a file, and the other state that the engine's parts share."""

    def __init__(
        self,
        path: Path,
        writer: Writer,
        readers: Readers,
        *,
        clock: Clock,
        memory_mb: int = DEFAULT_MB,
        words_mb: int = WORDS_MB,
    ) -> None:
        self.path = path
        self.writer = writer
        self.readers = readers
        self.clock = clock
        self.one_check = asyncio.Lock()
        """Taken while holding a reader for long: one at a time, so that questions find a free one."""
        self.tidying = Tidier(writer, readers)
        self.faults = Faults()
        """Rows and vectors that did not match their checksum."""
        self.caches = VectorCaches(readers, memory_mb * MEBIBYTE, self.faults)
        self.postings = PostingsCache(readers, words_mb * MEBIBYTE, self.caches.refreshed)
        writer.noted = self.postings.note
        self.keyword_gap: str | None = None

    def read(self, function: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run the function in a reader."""
        return self.readers.run(_bound(function, *args, **kwargs))

    async def check(self, function: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one check at a time for up to a minute, since each holds a reader while it runs."""
        async with self.one_check:
            return await self.readers.run(_bound(function, *args, **kwargs), timeout_s=CHECK_TIMEOUT_S)

    def write(self, function: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run the function as one transaction of the writer."""
        return self.writer.run(_bound(function, *args, **kwargs))

    async def remove(self, function: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a deleting function, and note the deletion even if the caller is cancelled."""
        try:
            return await self.write(function, *args, **kwargs)
        finally:
            self.tidying.note_deletion()


def _bound(function: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[Connection], T]:
    """Return the function of a connection alone; a partial, which calls no Python, if possible."""
    if not args:
        return partial(function, **kwargs)
    return lambda conn: function(conn, *args, **kwargs)


class SqlitePart:
    """A part of the engine that implements one protocol, over connections that all parts share."""

    def __init__(self, connections: SqliteConnections) -> None:
        self.db = connections


def reads(function: Query[P, T], *, timeout_s: float = READ_TIMEOUT_S) -> Method[P, T]:
    """Return a method that runs the function in a reader."""

    async def method(self: SqlitePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.db.readers.run(_bound(function, *args, **kwargs), timeout_s=timeout_s)

    method.__doc__ = function.__doc__
    return method


def looks_up(function: Callable[Concatenate[Connection, ReadContext, P], T]) -> Method[P, T]:
    """Return a method like `reads`, whose function also gets the context of the read."""

    async def method(self: SqlitePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = ReadContext(self.db.clock(), self.db.faults)
        return await self.db.readers.run(lambda conn: function(conn, context, *args, **kwargs))

    method.__doc__ = function.__doc__
    return method


def checks(function: Query[P, T]) -> Method[P, T]:
    """Return a method that runs the function like `SqliteConnections.check`."""

    async def method(self: SqlitePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.db.check(function, *args, **kwargs)

    method.__doc__ = function.__doc__
    return method
