"""The client for programs without an event loop. Each method sends one call of `calls.py`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from agentctx import wire
from agentctx.client import calls
from agentctx.client.api_call import ApiCall
from agentctx.client.saves import BATCH_BYTES, BATCH_ENTRIES, Batch, BatchDelivery, SaveBatcher
from agentctx.client.session import NO_ANSWER_ERRORS, SyncSession
from agentctx.client.transport import HttpReply
from agentctx.client.unix_transport import UnixTransport
from agentctx.errors import AgentctxError, InvalidInput

if TYPE_CHECKING:
    from agentctx.client.options import ListOptions

T = TypeVar("T")


class Client(SyncSession):
    """A client of the daemon: `with Client() as client: ...`

    `socket` defaults to the result of `config.paths.find_socket`. `timeout_s` bounds each exchange with the
    daemon, plus any time the daemon was asked to wait; `within` sets another timeout for single calls.
    `start_timeout_s` is how long a call waits for a daemon that is not listening yet, is starting or is
    stopping; 0 fails at once. `namespace` is used by calls that name none. `transport` replaces the
    connections over the socket. One client may serve many threads at once.

    Every method raises DaemonUnreachable when no daemon listens, DeadlineExceeded when no answer arrives in
    time, and any error that the daemon answers with. Saves and reads are retried when the connection drops
    before the answer; a save carries an `Idempotency-Key`, so it happens only once.
    """

    _default_transport = UnixTransport

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections; the client cannot be used afterwards."""
        self._transport.close()

    def save_all(
        self,
        requests: Iterable[wire.SaveRequest],
        *,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[wire.SaveResult | AgentctxError]:
        """Save any number of entries in batches, yielding a result or an error for each, in order.

        Requests are pulled as results are consumed, so memory holds one batch. An entry larger than
        `batch_bytes` is sent alone; one that the daemon refuses fails alone. Each request names its own
        namespace: the client's is not used. If this ends early, entries without a result may be saved or not.

        Raises:
            AgentctxError: a batch could not be delivered (no daemon, no answer, disk full).
        """
        batcher = SaveBatcher(batch_entries, batch_bytes)
        for request in requests:
            if batch := batcher.add(request):
                yield from self._deliver(batch)
        if batch := batcher.rest():
            yield from self._deliver(batch)

    def iterate(self, **options: Unpack[ListOptions]) -> Iterator[wire.EntryView]:
        """Yield all live entries, newest first, fetched in pages of `limit` entries."""
        while True:
            page = self.list(**options)
            yield from page.entries
            if page.next is None:
                return
            options["cursor"] = page.next

    def alive(self) -> bool:
        """Return whether a daemon answers now. Neither waits for one to start nor raises if none does."""
        try:
            return self._send(calls.alive())
        except NO_ANSWER_ERRORS:
            return False

    def _deliver(self, batch: Batch) -> Iterator[wire.SaveResult | AgentctxError]:
        delivery = BatchDelivery(batch)
        while (call := delivery.next_call()) is not None:
            try:
                delivery.answered(self._send(call))
            except InvalidInput as error:
                delivery.refused(error)
            yield from delivery.settled()
        yield from delivery.settled()

    def _send(self, call: ApiCall[T]) -> T:
        attempts = self._attempts(call)
        while True:
            try:
                return call.read(self._exchange(call))
            except AgentctxError as error:
                pause_s = attempts.pause_after(error, time.monotonic())
                if pause_s is None:
                    raise
            time.sleep(pause_s)

    def _exchange(self, call: ApiCall[T]) -> HttpReply:
        reply = self._transport.request(
            call.method, call.path, call.body, call.headers, self._timeout_of(call)
        )
        self._note(reply)
        return reply
