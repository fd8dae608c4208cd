"""Cuts any number of saves into requests of bounded size. No I/O; both clients share it.

An entry that cannot be sent takes its place in a batch as the error it is. A request that the daemon refuses
as a whole, since one entry in it has a wrong type, is cut in two until that entry is alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from agentctx.client.api_call import ApiCall
from agentctx.client.calls import EncodedSave, SaveOutcomes, encode_save, new_idempotency_key, save_encoded
from agentctx.errors import AgentctxError, InvalidInput

if TYPE_CHECKING:
    from agentctx.wire import SaveRequest

BATCH_ENTRIES = 500
"""Entries a request. The daemon takes 1,000 unless its config says otherwise."""
BATCH_BYTES = 512 * 1024
"""Bytes a request. The daemon takes 1 MiB unless its config says otherwise."""

Slot: TypeAlias = EncodedSave | AgentctxError
Batch: TypeAlias = list[Slot]
"""What goes in one request, in order, with the errors of what cannot go."""


class SaveBatcher:
    """Collects saves until a batch is full. An entry over `most_bytes` goes alone."""

    def __init__(self, most_entries: int = BATCH_ENTRIES, most_bytes: int = BATCH_BYTES) -> None:
        if most_entries < 1 or most_bytes < 1:
            raise InvalidInput("A batch needs room for at least one entry and one byte.")
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._batch: Batch = []
        self._bytes = 0

    def add(self, request: SaveRequest) -> Batch | None:
        """The batch that is full now, if one is; it may be without this request."""
        slot = _slot(request)
        size = len(slot.body) + 1 if isinstance(slot, EncodedSave) else 0
        full = self.rest() if self._bytes + size > self._most_bytes else None
        self._batch.append(slot)
        self._bytes += size
        if full is None and (len(self._batch) >= self._most_entries or self._bytes >= self._most_bytes):
            full = self.rest()
        return full

    def rest(self) -> Batch | None:
        """What waits for more to come; None when nothing does."""
        batch, self._batch, self._bytes = self._batch, [], 0
        return batch or None


class BatchDelivery:
    """A batch on its way: what to send next, and what became of its entries, in order.

    Send `next_call()` until it is None, report each with `answered` or `refused`, take what has `settled`.
    """

    def __init__(self, batch: Batch) -> None:
        self._waiting: list[Batch] = [batch]
        self._outcomes: SaveOutcomes = []

    def next_call(self) -> ApiCall[SaveOutcomes] | None:
        """The request for the first entries that have no outcome yet, with a key of its own."""
        while self._waiting:
            if entries := self._entries():
                return save_encoded(entries, new_idempotency_key())
            self._settle([])
        return None

    def answered(self, outcomes: SaveOutcomes) -> None:
        """The daemon answered the last call, entry by entry."""
        self._settle(outcomes)

    def refused(self, error: InvalidInput) -> None:
        """The daemon refused the last call as a whole, and saved nothing of it."""
        batch = self._waiting[-1]
        if len(self._entries()) == 1:
            self._settle([error])
        else:
            middle = len(batch) // 2
            self._waiting[-1:] = [batch[middle:], batch[:middle]]

    def settled(self) -> SaveOutcomes:
        """The outcomes that came since the last time, in order."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _entries(self) -> Sequence[EncodedSave]:
        return [slot for slot in self._waiting[-1] if isinstance(slot, EncodedSave)]

    def _settle(self, outcomes: SaveOutcomes) -> None:
        """Put the outcomes of the entries into the places between the errors."""
        arrived = iter(outcomes)
        for slot in self._waiting.pop():
            self._outcomes.append(next(arrived) if isinstance(slot, EncodedSave) else slot)


def _slot(request: SaveRequest) -> Slot:
    try:
        return encode_save(request)
    except InvalidInput as error:
        return error
