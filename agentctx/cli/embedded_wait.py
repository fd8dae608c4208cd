"""`--wait`: until a saved entry can be found by meaning."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentctx.errors import DeadlineExceeded

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import SaveResult

EMBEDDED_TIMEOUT_S = 300.0
"""How long `--wait` keeps asking after the daemon has answered a save: the first start builds the model."""
_PAUSE_S = 1.0


def until_embedded(
    client: Client,
    result: SaveResult,
    *,
    limit_s: float = EMBEDDED_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> SaveResult:
    """The result, as soon as nothing of the entry is pending; the daemon itself gives up waiting far earlier.

    Raises:
        DeadlineExceeded: it is still pending after `limit_s` seconds.
        NotFound: the entry was forgotten meanwhile.
    """
    deadline = clock() + limit_s
    while result.embedding == "pending":
        result = replace(result, embedding=client.get(result.id).embedding)
        if result.embedding == "pending":
            if clock() >= deadline:
                raise DeadlineExceeded(
                    f"Saved, but still not searchable by meaning after {limit_s:g} s.",
                    hint="Nothing is lost. `agentctx queue status` shows pending and failed jobs.",
                )
            pause(_PAUSE_S)
    return result
