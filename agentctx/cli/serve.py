"""`agentctx serve`: run the daemon in the foreground."""

from __future__ import annotations

import gc
import os
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
    # Nearly all objects made during startup stay alive. The daemon enables the collector when it is ready.
    gc.disable()
    try:
        # Looking for plugins reads the metadata of every installed package.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        # The daemon's products are small, and a second thread's start takes as long as the import of NumPy.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from agentctx.daemon.host.lean_imports import import_structlog

        import_structlog()
        from agentctx.daemon.run import serve as run_daemon

        raise typer.Exit(run_daemon(config, data_dir, socket or ctx.obj))
    finally:
        gc.enable()
