"""The output of an ingest for people."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from agentctx.cli.consent import require_consent_to_cost
from agentctx.cli.layout import columns, file_size, printable
from agentctx.cli.output import paint, print_note
from agentctx.embedding.providers.prices import (
    CostEstimate,
    estimate_cost,
    estimate_tokens,
    format_usd,
    needs_consent,
)
from agentctx.errors import AccessDenied, AgentctxError, InvalidInput
from agentctx.ingest.delivery import DryRunClient
from agentctx.ingest.report import Estimate
from agentctx.text.chunking import chunk_entry
from agentctx.wire import SaveResult
from agentctx.wire.wording import counted, duration

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.ingest.report import Report
    from agentctx.wire import ProviderCost, ProviderStatus, SaveRequest


_MAX_COMPLAINTS = 20
SAMPLES: Final = 6
BYTES_PER_CHUNK: Final = 575
"""File bytes per chunk, measured on a folder of documentation."""
_STORED_PER_BYTE: Final = 3
_STORED_PER_CHUNK: Final = 1_000
_VECTOR_COPIES: Final = 2
_VECTOR_BYTES: Final = 4
LONG_S: Final = 30.0
"""Minimum duration at which a run is announced before it begins."""


def summary_lines(report: Report) -> list[str]:
    """Return one aligned line for each outcome with the number of files, and reasons for those skipped."""
    details = {
        "skipped": _reasons(each.reason for each in report.skipped),
        "withdrawn": _reasons(each.reason for each in report.withdrawn),
        "stale": _reasons(each.reason for each in report.stale),
        "removed": _reasons(each.reason for each in report.removed),
        "touched": "the text is the same",
    }
    rows = [(name, str(count), details.get(name, "")) for name, count in report.counts().items() if count]
    if report.entries:
        rows.append(("entries", str(report.entries), file_size(report.bytes)))
    if report.pending is not None:
        rows.append(("pending", str(report.pending), f"{report.buried} buried" if report.buried else ""))
    if report.estimate:
        rows += estimate_rows(report.estimate)
    return columns(rows, right={1}) if rows else ["nothing to do"]


def change_lines(report: Report, *, with_skipped: bool = True) -> list[str]:
    """Return one line for each file with what happened to it, or would happen."""
    rows = [(verdict.value, source, "") for verdict, sources in report.saved.items() for source in sources]
    rows += [("removed", each.source, each.reason) for each in report.removed]
    rows += [("withdrawn", each.source, each.reason) for each in report.withdrawn if each.is_new]
    rows += [("stale", each.source, each.reason) for each in report.stale if each.is_new]
    rows += [("returned", source, "") for source in report.returned]
    if with_skipped:
        rows += [("skipped", each.path, each.reason) for each in report.skipped]
    width = len("unchanged")
    return [
        f"{paint(verdict.ljust(width), 'dim')}  {printable(source)}{f'  ({reason})' if reason else ''}"
        for verdict, source, reason in rows
    ]


def print_notes(report: Report) -> None:
    """Print the failures on stderr, and hints on how to include the skipped files."""
    for failed in report.failed[:_MAX_COMPLAINTS]:
        print(printable(f"failed: {failed.path}: {failed.problem}"), file=sys.stderr)
    if len(report.failed) > _MAX_COMPLAINTS:
        print_note(f"and {len(report.failed) - _MAX_COMPLAINTS} more failed; --json lists them all")
    hints = Counter(skipped.hint for skipped in report.skipped if skipped.hint)
    hints += Counter(failed.hint for failed in report.failed if failed.hint)
    for hint, count in hints.most_common():
        print_note(f"{counted(count, 'file')}: {hint}")
    for remark in report.remarks[:_MAX_COMPLAINTS]:
        print_note(f"{remark.path}: {remark.remark}")
    if any(each.is_new for each in report.withdrawn):
        print_note("withdrawn files are in no answer until they are back; see `agentctx ingest --status`")


def _reasons(reasons: Iterator[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())


class CountingClient(DryRunClient):
    """Accepts every save, stores nothing and counts the chunks; `samples` holds a few of them."""

    def __init__(self) -> None:
        self.chunks = 0
        self.text_bytes = 0
        self.samples: list[str] = []

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[SaveResult | AgentctxError]:
        """Yield a result for each request, as if it had been saved."""
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
    """Measure how long the daemon takes to embed one of these texts by searching for each.

    Returns None if that is unknown: there are no texts, or the search was degraded.

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


def make_estimate(
    dry_run_client: CountingClient, provider: ProviderStatus, per_chunk_s: float | None
) -> Estimate:
    """Return the estimate for saving and embedding everything, from the counts and the measured pace."""
    per_chunk = _STORED_PER_CHUNK + _VECTOR_COPIES * _VECTOR_BYTES * provider.dimension
    return Estimate(
        chunks=dry_run_client.chunks,
        tokens=estimate_tokens(dry_run_client.text_bytes) if dry_run_client.text_bytes else 0,
        seconds=None if per_chunk_s is None else round(dry_run_client.chunks * per_chunk_s, 1),
        disk_bytes=dry_run_client.text_bytes * _STORED_PER_BYTE + dry_run_client.chunks * per_chunk,
        measured_on=0 if per_chunk_s is None else len(dry_run_client.samples),
    )


def estimate_rows(estimate: Estimate) -> list[tuple[str, str, str]]:
    """Return rows for people, marked as estimates."""
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
    """Return what to expect of files of `size` bytes, or None if that is unknown or will not take long."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGate:
    """Shows what a pass will cost and asks for consent."""

    client: Client
    is_approved: bool
    """The user passed `--yes`, or nothing will be sent."""
    can_prompt: bool
    """Whether stdin and stderr belong to a user who can answer."""
    quiet: bool
    """Show the cost only if it needs consent."""

    def pass_with(self, size: int, report: Report) -> None:
        """Return if files of `size` bytes may be sent; nothing is asked if embedding is free.

        Raises:
            InvalidInput: it costs more than may be spent without asking, and no user can be asked.
            typer.Exit: the answer was no.
        """
        from agentctx.ingest.report import Cost

        try:
            provider = self.client.status().provider
        except AccessDenied:
            return  # the cost concerns only the operator
        if provider.cost is None or not size:
            return
        estimate = estimate_cost(size, provider.cost.usd_per_million_tokens)
        report.cost = Cost(tokens=estimate.tokens, usd=estimate.usd, model=provider.model)
        is_dear = needs_consent(estimate, provider.cost.confirm_usd)
        if is_dear or not self.quiet:
            print_note(cost_line(estimate, provider, provider.cost))
        if is_dear and not self.is_approved:
            refusal = _refusal(estimate, provider.cost.confirm_usd)
            require_consent_to_cost(refusal, can_ask=self.can_prompt)


def cost_line(estimate: CostEstimate, provider: ProviderStatus, cost: ProviderCost) -> str:
    """Return the cost on one line for people."""
    tokens = f"about {estimate.tokens:,} tokens to embed with {provider.id} {provider.model}"
    if estimate.usd is None:
        return (
            f"{tokens}; no published price known for {provider.model}; "
            "set embedding.limits.usd_per_million_tokens"
        )
    price = f"${cost.usd_per_million_tokens:g} a million, {cost.price_source}"
    return f"{tokens}, {format_usd(estimate.usd)} ({price})"


def _refusal(estimate: CostEstimate, confirm_usd: float) -> InvalidInput:
    return InvalidInput(
        f"Embedding this costs about {format_usd(estimate.usd or 0.0)}, more than {format_usd(confirm_usd)}; "
        "nothing was sent.",
        hint="Pass --yes to continue, or raise embedding.limits.confirm_usd in the daemon's config.",
    )
