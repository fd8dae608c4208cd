"""`agentctx ui`: the memory in a browser."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.options import AsJson
from agentctx.cli.output import print_note, show


def ui(
    ctx: typer.Context,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open the memory in a browser: search, read, correct and forget it, with your own rights.

    The link works once and for a minute. For a daemon on a server, run this there over SSH, and first
    forward the port that it names from your own machine.
    """
    import webbrowser

    with connect(ctx) as client:
        link = client.open_page()
    if "SSH_CONNECTION" in os.environ:
        print_note(f"on your own machine, first run: ssh -N -L {link.port}:127.0.0.1:{link.port} THIS-SERVER")
    elif not (no_open or as_json) and not webbrowser.open(link.url):
        print_note("no browser was found; open this link in one:")
    show(link, [link.url], as_json)
