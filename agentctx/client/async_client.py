"""The client for programs on an event loop. Each method sends one call of `calls.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from agentctx import wire
from agentctx.client import calls
from agentctx.client.api_call import ApiCall
from agentctx.client.async_transport import AsyncUnixTransport
from agentctx.client.saves import BATCH_BYTES, BATCH_ENTRIES, Batch, BatchDelivery, SaveBatcher
from agentctx.client.session import NO_ANSWER_ERRORS, AsyncSession
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError, InvalidInput

if TYPE_CHECKING:
    from agentctx.client.options import ListOptions

T = TypeVar("T")


class AsyncClient(AsyncSession):
    """A client of the daemon: `async with AsyncClient() as client: ...`

    It takes the arguments of `Client`, and raises and retries like it; its methods are coroutine functions.
    One client may serve many tasks of one event loop.
    """

    _default_transport = AsyncUnixTransport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the kept connections; the client cannot be used afterwards."""
        await self._transport.close()

    async def save_all(
        self,
        requests: Iterable[wire.SaveRequest] | AsyncIterable[wire.SaveRequest],
        *,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> AsyncIterator[wire.SaveResult | AgentctxError]:
        """Save any number of entries in batches, yielding a result or an error for each, in order.

        See `Client.save_all`; `requests` may also be asynchronous.
        """
        batcher = SaveBatcher(batch_entries, batch_bytes)
        async for request in _each(requests):
            if batch := batcher.add(request):
                async for outcome in self._deliver(batch):
                    yield outcome
        if batch := batcher.rest():
            async for outcome in self._deliver(batch):
                yield outcome

    async def iterate(self, **options: Unpack[ListOptions]) -> AsyncIterator[wire.EntryView]:
        """Yield all live entries, newest first, fetched in pages of `limit` entries."""
        while True:
            page = await self.list(**options)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            options["cursor"] = page.next

    async def alive(self) -> bool:
        """Return whether a daemon answers now. Neither waits for one to start nor raises if none does."""
        try:
            return await self._send(calls.alive())
        except NO_ANSWER_ERRORS:
            return False

    async def _deliver(self, batch: Batch) -> AsyncIterator[wire.SaveResult | AgentctxError]:
        delivery = BatchDelivery(batch)
        while (call := delivery.next_call()) is not None:
            try:
                delivery.answered(await self._send(call))
            except InvalidInput as error:
                delivery.refused(error)
            for outcome in delivery.settled():
                yield outcome
        for outcome in delivery.settled():
            yield outcome

    async def _send(self, call: ApiCall[T]) -> T:
        attempts = self._attempts(call)
        while True:
            try:
                return call.read(await self._exchange(call))
            except AgentctxError as error:
                pause_s = attempts.pause_after(error, time.monotonic())
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)

    async def _exchange(self, call: ApiCall[T]) -> HttpReply:
        reply = await self._transport.request(
            call.method, call.path, call.body, call.headers, self._timeout_of(call)
        )
        self._note(reply)
        return reply


async def _each(
    requests: Iterable[wire.SaveRequest] | AsyncIterable[wire.SaveRequest],
) -> AsyncIterator[wire.SaveRequest]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request
