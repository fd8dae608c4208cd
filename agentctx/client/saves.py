"""Saves as JSON, and the requests that carry them under an idempotency key. No I/O."""

from __future__ import annotations

import os
from base64 import b32encode
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from agentctx import wire
from agentctx.client.api_call import JSON, ApiCall, encoded, present, reader
from agentctx.client.decode import UnreadableReply, error_of
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError
from agentctx.wire.names import API_PREFIX, IDEMPOTENCY_HEADER

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
    """Return a new unique key of 80 random bits.

    It is shorter than 20 characters, so the daemon skips its search for encoded secrets: a tenth of a save.
    """
    return b32encode(os.urandom(10)).decode().lower()


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
