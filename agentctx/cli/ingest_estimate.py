"""What a dry run of an ingest learns: how many chunks there are, and about how long embedding them takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from agentctx.chunking import chunk_entry
from agentctx.cli.layout import duration, file_size
from agentctx.embedding_providers.prices import estimate_tokens
from agentctx.errors import AgentctxError
from agentctx.ingest.delivery import Rehearsal
from agentctx.ingest.report import Estimate
from agentctx.wire import SaveResult

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import ProviderStatus, SaveRequest

SAMPLES: Final = 6
BYTES_PER_CHUNK: Final = 575
"""Of the files of a folder of documentation, for each chunk they were cut into."""
_STORED_PER_BYTE: Final = 3
_STORED_PER_CHUNK: Final = 1_000
_VECTOR_COPIES: Final = 2
_VECTOR_BYTES: Final = 4
LONG_S: Final = 30.0
"""From here on a user wants to know before it begins."""


class CountingRehearsal(Rehearsal):
    """Takes everything, keeps nothing, and counts the chunks; `samples` are some of them."""

    def __init__(self) -> None:
        self.chunks = 0
        self.text_bytes = 0
        self.samples: list[str] = []

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[SaveResult | AgentctxError]:
        """A result for each request, as if it had been saved."""
        for request in requests:
            self._count(request.content or "", request.source)
            yield SaveResult(id="", version=0, changed=True)

    def _count(self, content: str, source: str | None) -> None:
        spans = chunk_entry(content, source=source)
        self.chunks += len(spans)
        self.text_bytes += len(content.encode(errors="replace"))
        if spans and len(self.samples) < SAMPLES:
            middle = spans[len(spans) // 2]
            self.samples.append(content[middle.start : middle.end])


def seconds_per_chunk(
    client: Client, samples: Sequence[str], namespace: str, *, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """How long the daemon takes to embed one of these texts: it is asked to search for each.

    None when that is not known: there is nothing to embed, or the model takes no part.

    Raises:
        AgentctxError: the daemon does not answer.
    """
    taken: list[float] = []
    for text in samples:
        began = clock()
        reply = client.search(text, namespace=namespace, limit=1)
        if reply.degraded is not None:
            return None
        taken.append(clock() - began)
    return median(taken) if taken else None


def estimated(rehearsal: CountingRehearsal, provider: ProviderStatus, per_chunk_s: float | None) -> Estimate:
    """What saving and embedding everything takes, from what was counted and measured."""
    per_chunk = _STORED_PER_CHUNK + _VECTOR_COPIES * _VECTOR_BYTES * provider.dimension
    return Estimate(
        chunks=rehearsal.chunks,
        tokens=estimate_tokens(rehearsal.text_bytes) if rehearsal.text_bytes else 0,
        seconds=None if per_chunk_s is None else round(rehearsal.chunks * per_chunk_s, 1),
        disk_bytes=rehearsal.text_bytes * _STORED_PER_BYTE + rehearsal.chunks * per_chunk,
        measured_on=0 if per_chunk_s is None else len(rehearsal.samples),
    )


def estimate_rows(estimate: Estimate) -> list[tuple[str, str, str]]:
    """Rows for people, named for what they are: estimates."""
    rows = [
        ("chunks", f"{estimate.chunks:,}", ""),
        ("tokens", f"{estimate.tokens:,}", "estimate"),
        ("disk", file_size(estimate.disk_bytes), "estimate"),
    ]
    if estimate.seconds is None:
        return [*rows, ("embedding", "-", "the provider sets the pace; it was not measured")]
    return [
        *rows,
        ("embedding", duration(estimate.seconds), f"estimate, measured on {estimate.measured_on} of them"),
    ]


def long_run_line(size: int, per_chunk_s: float | None) -> str | None:
    """What to expect of files of so many bytes, if it takes long; None if not."""
    if per_chunk_s is None:
        return None
    chunks = size // BYTES_PER_CHUNK
    seconds = chunks * per_chunk_s
    if seconds < LONG_S:
        return None
    return (
        f"about {chunks:,} chunks, about {duration(seconds)} to embed; "
        "text is found by keyword as soon as it is saved, by meaning once it is embedded"
    )
