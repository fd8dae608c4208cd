"""The connection of a command to the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from agentctx import __version__
from agentctx.cli.output import print_note

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client

TIMEOUT_S = 30.0
WAITING_TIMEOUT_S = 120.0
"""Timeout of a save that waits until the entry is embedded; the daemon answers within half a minute."""


@contextmanager
def connect(ctx: typer.Context, *, timeout_s: float = TIMEOUT_S) -> Iterator[Client]:
    """Connect to the daemon of the global `--socket`; note on stderr if its version differs."""
    from agentctx.client.sync_client import Client

    with Client(ctx.obj, timeout_s=timeout_s, start_timeout_s=0) as client:
        yield client
    if client.daemon_version not in {None, __version__}:
        print_note(
            f"the daemon is version {client.daemon_version}, this command {__version__}; restart the daemon"
        )
