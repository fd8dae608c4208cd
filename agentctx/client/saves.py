"""Saves as JSON, and the requests that carry them under an idempotency key. No I/O; both clients share it.

Any number of saves is split into requests of bounded size. An entry that cannot be sent is represented in its
batch by its error. A request that the daemon refuses as a whole, because one of its entries has a wrong type,
is halved until that entry is alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from agentctx import wire
from agentctx.client.api_call import JSON, ApiCall, encoded, present, reader
from agentctx.client.decode import UnreadableReply, error_of
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.wire.protocol import API_PREFIX, IDEMPOTENCY_HEADER

T = TypeVar("T")

SaveOutcomes: TypeAlias = "list[wire.SaveResult | AgentctxError]"
"""A result or an error for each request, in order."""

EMBEDDED_WAIT_S = 30.0
"""How long the daemon holds back the answer to a save or an edit with `wait="embedded"`."""


class EncodedSave(NamedTuple):
    """One save as JSON; `waits` says whether the daemon waits for its vectors before it answers."""

    body: bytes
    waits: bool


def save_once(request: wire.SaveRequest, idempotency_key: str) -> ApiCall[wire.SaveResult]:
    """Save one entry under the caller's idempotency key."""
    return _save(encode_save(request), reader(wire.SaveResult), idempotency_key)


def save_encoded(entries: Sequence[EncodedSave], idempotency_key: str) -> ApiCall[SaveOutcomes]:
    """Save many entries, each encoded by `encode_save`, in one request."""
    body = b'{"entries":[%b]}' % b",".join(entry.body for entry in entries)
    whole = EncodedSave(body, any(entry.waits for entry in entries))
    return _save(whole, outcomes_reader(len(entries)), idempotency_key)


def encode_save(request: wire.SaveRequest) -> EncodedSave:
    """Encode a save as JSON. Raises InvalidInput if that is impossible."""
    return EncodedSave(encoded(present(request)), request.wait is not None)


def new_idempotency_key() -> str:
    """Return a new unique key of 80 random bits."""
    return os.urandom(10).hex()


def outcomes_reader(count: int) -> Callable[[HttpReply], SaveOutcomes]:
    """Return the reader of a reply that has a result or an error for each of `count` entries."""

    def read(reply: HttpReply) -> SaveOutcomes:
        results = reader(wire.SaveManyReply)(reply).results
        if len(results) != count:
            raise UnreadableReply(f"The daemon answered {len(results)} results for {count} entries.")
        return [
            error_of(result.error) if isinstance(result, wire.ErrorReply) else result for result in results
        ]

    return read


def _save(entry: EncodedSave, read: Callable[[HttpReply], T], idempotency_key: str) -> ApiCall[T]:
    headers = {**JSON, IDEMPOTENCY_HEADER: idempotency_key}
    takes_s = EMBEDDED_WAIT_S if entry.waits else 0.0
    return ApiCall(
        "POST", f"{API_PREFIX}/entries", read, entry.body, headers, repeatable=True, takes_s=takes_s
    )


BATCH_ENTRIES = 500
"""Entries per request. The daemon accepts 1,000 unless its config says otherwise."""
BATCH_BYTES = 512 * 1024
"""Bytes per request. The daemon accepts 1 MiB unless its config says otherwise."""

BatchItem: TypeAlias = EncodedSave | AgentctxError
Batch: TypeAlias = list[BatchItem]
"""The entries of one request in order, with an error in place of each entry that cannot be sent."""


class SaveBatcher:
    """Collects saves until a batch is full. An entry over `most_bytes` gets a batch of its own."""

    def __init__(self, most_entries: int = BATCH_ENTRIES, most_bytes: int = BATCH_BYTES) -> None:
        if most_entries < 1 or most_bytes < 1:
            raise InvalidInput("A batch needs room for at least one entry and one byte.")
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._batch: Batch = []
        self._bytes = 0

    def add(self, request: wire.SaveRequest) -> Batch | None:
        """Add a request; return the batch that is now full, if any, which may not include the request."""
        item: BatchItem
        try:
            item = encode_save(request)
        except InvalidInput as error:
            item = error
        size = len(item.body) + 1 if isinstance(item, EncodedSave) else 0
        full = self.rest() if self._bytes + size > self._most_bytes else None
        self._batch.append(item)
        self._bytes += size
        if full is None and (len(self._batch) >= self._most_entries or self._bytes >= self._most_bytes):
            full = self.rest()
        return full

    def rest(self) -> Batch | None:
        """Take the incomplete batch; None when it is empty."""
        batch, self._batch, self._bytes = self._batch, [], 0
        return batch or None


class BatchDelivery:
    """A batch being delivered: what to send next, and the outcomes of its entries, in order.

    Send `next_call()` until it is None, report each with `answered` or `refused`, and take `settled()`.
    """

    def __init__(self, batch: Batch) -> None:
        self._waiting: list[Batch] = [batch]
        self._outcomes: SaveOutcomes = []

    def next_call(self) -> ApiCall[SaveOutcomes] | None:
        """Return the request for the first entries without an outcome, under a new idempotency key."""
        while self._waiting:
            if entries := self._entries():
                return save_encoded(entries, new_idempotency_key())
            self._settle([])
        return None

    def answered(self, outcomes: SaveOutcomes) -> None:
        """Report that the daemon answered the last call with an outcome for each entry."""
        self._settle(outcomes)

    def refused(self, error: InvalidInput) -> None:
        """Report that the daemon refused the last call as a whole and saved none of its entries."""
        batch = self._waiting[-1]
        if len(self._entries()) == 1:
            self._settle([error])
        else:
            middle = len(batch) // 2
            self._waiting[-1:] = [batch[middle:], batch[:middle]]

    def settled(self) -> SaveOutcomes:
        """Return the outcomes since the previous call of this method, in order."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _entries(self) -> Sequence[EncodedSave]:
        return [item for item in self._waiting[-1] if isinstance(item, EncodedSave)]

    def _settle(self, outcomes: SaveOutcomes) -> None:
        """Merge the outcomes of the sent entries with the errors of the others, in order."""
        arrived = iter(outcomes)
        for item in self._waiting.pop():
            self._outcomes.append(next(arrived) if isinstance(item, EncodedSave) else item)
