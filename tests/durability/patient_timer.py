"""A manual clock for a real storage: it stands still while the storage's threads work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentctx.storage.sqlite.connections import SqlitePart
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.embedding.queue.manual_timer import ManualTimer


class WatchedStorage:
    """Knows when the storage's threads are busy: the clock must not move meanwhile."""

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage
        self.working = 0
        self.changed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return self._watched(getattr(self._storage, name))

    def _watched(self, found: Any) -> Any:
        if type(found).__module__.startswith("agentctx.storage.") and not callable(found):
            return WatchedPart(found, self._watched)
        return self.counted(found) if asyncio.iscoroutinefunction(found) else found

    def counted(self, method: Any) -> Any:
        """Return the coroutine function, during whose calls the clock stands still."""

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.working += 1
            try:
                return await method(*arguments, **named)
            finally:
                self.working -= 1
                self.changed.set()

        return counted


class WatchedPart:
    """A part of a watched storage."""

    def __init__(self, part: SqlitePart, watched: Callable[[Any], Any]) -> None:
        self._part = part
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        return self._watched(getattr(self._part, name))


class PatientTimer(ManualTimer):
    """Stops the clock while the storage is busy."""

    storage: WatchedStorage | None = None

    async def settle(self) -> None:
        await super().settle()
        while self.storage is not None and self.storage.working:
            self.storage.changed.clear()
            await self.storage.changed.wait()
            await super().settle()
