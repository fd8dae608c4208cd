"""Clients that save one text after another and record every outcome."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agentctx.errors import StorageFailed
from agentctx_postgresql.driver import Server
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.drafts import keyless

WAIT_S = 60


async def opened(url: str) -> PostgresqlStorage:
    return await PostgresqlStorage.open(Server(url=url), daemon="a")


async def save(storage: PostgresqlStorage, text: str) -> str:
    return (await storage.entries.save(keyless(text), embed=False)).id


async def save_when_possible(storage: PostgresqlStorage, text: str) -> str:
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(StorageFailed):
                return await save(storage, text)
            await asyncio.sleep(0.05)


async def wait_until_refused(storage: PostgresqlStorage, reason: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with pytest.raises(StorageFailed) as refused:
                await save(storage, "refused")
            if reason in refused.value.message:
                return
            await asyncio.sleep(0.05)


async def stored_ids(storage: PostgresqlStorage) -> list[str]:
    return [row[0] for row in await storage.db.read(lambda conn: conn.fetch("SELECT id FROM entries"))]


class Clients:
    """Concurrent clients that save until stopped."""

    def __init__(self, storage: PostgresqlStorage, number: int) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[StorageFailed] = []
        self._storage = storage
        self._is_stopped = False
        self._more = asyncio.Event()
        self._running = [asyncio.create_task(self._save(client)) for client in range(number)]

    async def _save(self, client: int) -> None:
        while not self._is_stopped:
            try:
                self.acknowledged.append(await save(self._storage, f"client {client}"))
                self._more.set()
            except StorageFailed as error:
                self.refused.append(error)
                await asyncio.sleep(0.02)

    async def save_more(self, number: int) -> None:
        """Wait until `number` more saves are acknowledged."""
        wanted = len(self.acknowledged) + number
        async with asyncio.timeout(WAIT_S):
            while len(self.acknowledged) < wanted:
                self._more.clear()
                await self._more.wait()

    async def stop(self) -> None:
        self._is_stopped = True
        await asyncio.gather(*self._running)
