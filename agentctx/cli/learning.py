"""`agentctx learning …`: record whether a learning helped."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.entry_names import entry_id_of
from agentctx.cli.options import AsJson, EntryName, KeyNamespace
from agentctx.cli.output import print_json, print_line
from agentctx.cli.save import acknowledgement

app = typer.Typer(no_args_is_help=True, help="Record the outcome of a learning.")


@app.callback()
def learning() -> None:
    """Record the outcome of a learning."""


@app.command()
def outcome(
    ctx: typer.Context,
    entry: EntryName,
    namespace: KeyNamespace = None,
    success: Annotated[bool, typer.Option("--success", help="Applying it helped.")] = False,
    failure: Annotated[bool, typer.Option("--failure", help="Applying it did not help.")] = False,
    as_json: AsJson = False,
) -> None:
    """Record whether applying a learning worked, which adjusts its confidence."""
    if success == failure:
        raise typer.BadParameter("give exactly one of --success and --failure")
    with connect(ctx) as client:
        result = client.outcome(entry_id_of(client, entry, namespace), success)
    if as_json:
        print_json(result)
    else:
        print_line(acknowledgement(result))
