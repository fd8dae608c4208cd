"""Where slow replies wait until they are let go."""

from __future__ import annotations

import asyncio


class ReplyGate:
    """`hold` waits for `release` or for the client to leave, and never for time."""

    def __init__(self) -> None:
        self._held: set[asyncio.Future[None]] = set()
        self._arrived = asyncio.Condition()

    async def hold(self, gone: asyncio.Future[None]) -> None:
        """Return when released, or when `gone` is done."""
        released = asyncio.get_running_loop().create_future()
        self._held.add(released)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            await asyncio.wait((released, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held.discard(released)

    def release(self) -> int:
        """Let go what waits now; how many these were. Later replies wait again."""
        held, self._held = self._held, set()
        for future in held:
            future.set_result(None)
        return len(held)

    async def wait_until_held(self, count: int = 1) -> None:
        """Return when so many replies wait."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._held) >= count)
