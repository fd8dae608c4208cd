"""`agentctx namespaces`: where entries are."""

from __future__ import annotations

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import one_line
from agentctx.cli.options import AsJson
from agentctx.cli.output import show, table
from agentctx.names import readable
from agentctx.wire import NamespaceList


def namespaces(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the namespaces that have entries, with how many, the largest first."""
    with connect(ctx) as client:
        reply = client.namespaces()
    nothing = None if reply.namespaces else "nothing is saved yet; `agentctx save --help` shows how to save"
    more = f"and {reply.more:,} smaller ones" if reply.more else None
    show(reply, namespace_lines(reply), as_json, nothing, more)


def namespace_lines(reply: NamespaceList) -> list[str]:
    """Return one line for each namespace: the number of entries, and the name, whole."""
    if not reply.namespaces:
        return []
    rows = [(f"{each.entries:,}", one_line(readable(each.namespace), None)) for each in reply.namespaces]
    return table(("ENTRIES", "NAMESPACE"), rows, None, right={0})
