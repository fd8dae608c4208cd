"""`agentctx dev …`: commands of the package agentctx-testing. Without it, one that says how to install it."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from agentctx.config.extras import install_hint_of_package
from agentctx.errors import ConfigInvalid

app = typer.Typer(no_args_is_help=True, help="Tools for developing and testing.")


@app.callback()
def _group() -> None:
    """Do nothing: without a callback, Typer would drop the name of a single command."""


@app.command("fake-provider", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _not_installed() -> None:
    """Run a fake embedding and chat provider. Needs the package agentctx-testing."""
    raise ConfigInvalid(
        "`agentctx dev` needs the package agentctx-testing, which is not installed.",
        hint=install_hint_of_package("agentctx-testing"),
    )


for _point in entry_points(group="agentctx.commands", name="dev"):
    app = _point.load()
