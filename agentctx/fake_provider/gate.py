"""The gate at which slow replies wait to be released."""

from __future__ import annotations

import asyncio


class ReplyGate:
    """Holds replies until `release` is called or the client disconnects; there is no timeout."""

    def __init__(self) -> None:
        self._held: set[asyncio.Future[None]] = set()
        self._arrived = asyncio.Condition()

    async def hold(self, disconnected: asyncio.Future[None]) -> None:
        """Wait until released, or until `disconnected` is done."""
        released = asyncio.get_running_loop().create_future()
        self._held.add(released)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            await asyncio.wait((released, disconnected), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held.discard(released)

    def release(self) -> int:
        """Release the replies that wait now and return their number. Later replies wait again."""
        held, self._held = self._held, set()
        for future in held:
            future.set_result(None)
        return len(held)

    async def wait_until_held(self, count: int = 1) -> None:
        """Wait until `count` replies are held."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._held) >= count)
