"""`agentctx queue …`: show, retry and drain the pending embeddings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.connection import TIMEOUT_S, connect
from agentctx.cli.layout import columns, one_line
from agentctx.cli.options import AsJson
from agentctx.cli.output import line_width, print_note, progress_line, show, table
from agentctx.errors import DeadlineExceeded, Unavailable
from agentctx.wire import QueueReply
from agentctx.wire.wording import duration

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import StatusReply


_POLL_S = 0.5
"""How long the daemon may hold back each answer while a terminal shows progress."""
_PLAIN_POLL_S = 10.0
"""The same without a terminal, where each answer becomes a line in a log."""
_FIRST_POLL_S = 1.0
"""Minimum time before a rate is meaningful."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """Progress of a drain: jobs pending at the start and now, and the seconds between."""

    first: int
    left: int
    seconds: float

    @property
    def rate(self) -> float:
        """Net jobs done per second, less those that arrived meanwhile; 0 while it is too early to tell."""
        return max(0, self.first - self.left) / self.seconds if self.seconds >= _FIRST_POLL_S else 0.0

    def __str__(self) -> str:
        parts = [f"{self.left} left"]
        if self.rate:
            parts += [f"{self.rate:.1f}/s", f"about {duration(self.left / self.rate)} to go"]
        return ", ".join(parts)


def drain(
    ctx: typer.Context,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Give up after this time.")
    ] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Wait until all entries can be found by meaning. Exits 1 if they cannot or a job was buried."""
    with connect(ctx, timeout_s=TIMEOUT_S + _PLAIN_POLL_S) as client, progress_line() as display:
        reply = drain_queue(client, timeout, display)
        status = client.status() if reply.pending else None
    show(reply, columns([("pending", str(reply.pending)), ("buried", str(reply.buried))]), as_json)
    if status:
        raise _drain_error(reply, status, timeout)
    if reply.buried:
        print_note(
            "embeddings were buried: `agentctx queue status` says why, `agentctx queue retry` retries them"
        )
        raise typer.Exit(1)


def drain_queue(
    client: Client,
    timeout_s: float,
    show: Callable[[DrainProgress], None],
    clock: Callable[[], float] = time.monotonic,
) -> QueueReply:
    """Poll until no job is pending or the timeout is over; return at once if the provider is off."""
    look_s = _POLL_S if sys.stderr.isatty() else _PLAIN_POLL_S
    started = clock()
    reply = client.queue()
    first = reply.pending
    if not first or client.status().provider.state == "off":
        return reply
    while reply.pending and (remaining_s := timeout_s - (clock() - started)) > 0:
        show(DrainProgress(first, reply.pending, clock() - started))
        reply = client.drain(min(look_s, remaining_s))
        first = max(first, reply.pending)
    return reply


def _drain_error(reply: QueueReply, status: StatusReply, timeout_s: float) -> Unavailable | DeadlineExceeded:
    provider = status.provider
    if provider.state == "off":
        return Unavailable(
            f"{reply.pending} embeddings are pending, but embedding.provider is none.",
            hint="Choose a provider in the config and restart the daemon.",
        )
    reason = f": {provider.reason.removesuffix('.')}" if provider.reason else ""
    why = "" if provider.state == "ok" else f"; the provider is {provider.state}{reason}"
    return DeadlineExceeded(
        f"{reply.pending} embeddings are still pending after {timeout_s:g} s{why}.",
        hint="Nothing is lost. Allow more time with --timeout, or check `agentctx status`.",
    )


app = typer.Typer(no_args_is_help=True, help="The background queue that embeds what was saved.")


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the pending jobs, and the buried ones with their reasons."""
    with connect(ctx) as client:
        reply = client.queue()
    buried = "`agentctx queue retry` retries the buried ones" if reply.buried else None
    show(reply, queue_lines(reply, line_width()), as_json, buried)


@app.command()
def retry(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Put buried jobs back into the queue."""
    with connect(ctx) as client:
        reply = client.retry_buried()
    show(reply, [f"retried  {reply.retried}"], as_json)


app.command()(drain)


def queue_lines(reply: QueueReply, limit: int | None) -> list[str]:
    """Return the counts, then one line for each buried job."""
    counts = [
        ("pending", str(reply.pending)),
        ("buried", str(reply.buried)),
        ("oldest", duration(reply.oldest_seconds)),
    ]
    if not reply.buried_jobs:
        return columns(counts)
    rows = [
        (str(job.job), job.entry, job.collection, str(job.attempts), one_line(job.reason, None))
        for job in reply.buried_jobs
    ]
    header = ("JOB", "ENTRY", "COLLECTION", "ATTEMPTS", "REASON")
    return [*columns(counts), "", *table(header, rows, limit, right={0, 3})]
