"""`agentctx queue …`: the pending embeddings."""

from __future__ import annotations

import typer

from agentctx.cli.connection import connect
from agentctx.cli.drain import drain
from agentctx.cli.layout import columns, cut, duration, one_line
from agentctx.cli.options import AsJson
from agentctx.cli.output import line_width, note, paint, put, put_json
from agentctx.wire import QueueReply

app = typer.Typer(no_args_is_help=True, help="The background queue that embeds what was saved.")


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what waits, and what was given up and why."""
    with connect(ctx) as client:
        reply = client.queue()
    if as_json:
        put_json(reply)
        return
    for line in queue_lines(reply, line_width()):
        put(line)
    if reply.buried:
        note("`agentctx queue retry` tries the buried ones again")


@app.command()
def retry(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Put what was given up back into the queue."""
    with connect(ctx) as client:
        reply = client.retry_buried()
    if as_json:
        put_json(reply)
    else:
        put(f"retried  {reply.retried}")


app.command()(drain)


def queue_lines(reply: QueueReply, limit: int | None) -> list[str]:
    """The counts, then one line for each job given up."""
    counts = [
        ("pending", str(reply.pending)),
        ("buried", str(reply.buried)),
        ("oldest", duration(reply.oldest_seconds)),
    ]
    if not reply.buried_jobs:
        return columns(counts)
    heads = [("JOB", "ENTRY", "COLLECTION", "ATTEMPTS", "REASON")]
    heads += [
        (str(job.job), job.entry, job.collection, str(job.attempts), one_line(job.reason, None))
        for job in reply.buried_jobs
    ]
    header, *lines = (cut(line, limit) for line in columns(heads, right={0, 3}))
    return [*columns(counts), "", paint(header, "dim"), *lines]
