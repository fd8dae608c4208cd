"""Creates the command line. A call imports only the module of its own command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

import typer

from agentctx.cli.root import create_root, run_app
from agentctx.cli.sections import SECTIONS, SuggestingGroup

COMMANDS: Final = {name: target for commands in SECTIONS.values() for name, target in commands.items()}
"""By command name: a module below `agentctx.cli` and its function, or its app with subcommands."""

_TAKES_VALUE: Final = frozenset({"--socket"})
"""Root options that come before the command and take a value."""


def create_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Create the command line with these commands."""
    app = create_root()
    for name in names:
        module, _, attribute = COMMANDS[name].partition(".")
        command = getattr(import_module(f"agentctx.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, cls=command.info.cls or SuggestingGroup)
        else:
            app.command(name)(command)
    return app


def command_of(args: Sequence[str]) -> str | None:
    """Return the called command, or None if all must be loaded: for the help or a mistyped command."""
    words = iter(args)
    for word in words:
        if word in _TAKES_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if word in COMMANDS else None
    return None


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = sys.argv[1:] if args is None else args
    name = command_of(given)
    return run_app(create_app(COMMANDS if name is None else [name]), args)
