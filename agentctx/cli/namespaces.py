"""`agentctx namespaces`: where entries are."""

from __future__ import annotations

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import one_line
from agentctx.cli.options import AsJson
from agentctx.cli.output import show, table
from agentctx.names import readable


def namespaces(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the namespaces that have entries, with how many, the largest first."""
    with connect(ctx) as client:
        reply = client.namespaces()
    nothing = None if reply.namespaces else "nothing is saved yet; `agentctx save --help` shows how to save"
    more = f"and {reply.more:,} smaller ones" if reply.more else None
    rows = [(f"{each.entries:,}", one_line(readable(each.namespace), None)) for each in reply.namespaces]
    lines = table(("ENTRIES", "NAMESPACE"), rows, None, right={0}) if rows else []
    show(reply, lines, as_json, nothing, more)
