"""`agentctx serve`: the daemon in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentctx.cli.options import ConfigFile, DataDir


def serve(
    ctx: typer.Context,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    socket: Annotated[Path | None, typer.Option(help="Path of the Unix socket to listen on.")] = None,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    from agentctx.daemon.run import serve as run_daemon

    raise typer.Exit(run_daemon(config, data_dir, socket or ctx.obj))
