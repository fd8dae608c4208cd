"""`agentctx dev …`: commands of the package agentctx-testing. Without it, one that says how to install it."""

from __future__ import annotations

import typer

from agentctx.config.entry_points import load_offered
from agentctx.errors import ConfigInvalid


def _without(refusal: ConfigInvalid) -> typer.Typer:
    """Return the commands where the package is missing, broken or of another version."""
    missing = typer.Typer(no_args_is_help=True, help="Tools for developing and testing.")

    @missing.callback()
    def _group() -> None:
        """Do nothing: without a callback, Typer would drop the name of a single command."""

    @missing.command(
        "fake-provider", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
    )
    def _refuse() -> None:
        """Run a fake embedding and chat provider. Needs the package agentctx-testing."""
        raise refusal

    return missing


def _commands() -> typer.Typer:
    try:
        commands: typer.Typer = load_offered(
            "agentctx.commands",
            "dev",
            package="agentctx-testing",
            needed_by="`agentctx dev`",
            refusal=ConfigInvalid,
        )
    except ConfigInvalid as refusal:
        return _without(refusal)
    return commands


app = _commands()
