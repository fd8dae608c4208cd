"""The headings of `agentctx --help` and the order of the commands below them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

from agentctx.cli.common_options import complete_commands

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Remember": ("save", "ingest", "edit", "learning", "forget", "undo", "revoke", "release"),
    "Ask": ("search", "context", "why", "why-not", "get", "list", "history", "wrap"),
    "Connect": ("connect", "mcp", "hook"),
    "Operate": (
        "serve",
        "status",
        "top",
        "doctor",
        "queue",
        "config",
        "access",
        "service",
        "reembed",
        "demo",
        "dev",
    ),
    "Keep safe": ("backup", "restore", "export", "import", "migrate", "audit"),
}
_REST = "More"
_WHOLE = 1_000
"""Width limit so large that long first sentences are wrapped, not cut."""
MISUSE: Any = typer.BadParameter.__bases__[0]
"""Base class of Typer's usage errors; Typer exports only its subclass."""

_PLAIN: Final = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"use \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"use \1 or less"),
    (re.compile(r"Input should be greater than (\S+)"), r"use more than \1"),
    (re.compile(r"Input should be less than (\S+)"), r"use less than \1"),
    (re.compile(r"Input should be a valid integer.*"), "use a whole number"),
    (re.compile(r"Input should be a valid number.*"), "use a number"),
)


class SectionedGroup(TyperGroup):
    """The root command: lists its commands by section in the help and adds the common options to each."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        complete_commands(self)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, rephrasing usage errors in plain words. Called by Typer."""
        try:
            return super().invoke(ctx)
        except MISUSE as misuse:
            misuse.message = plain_wording(misuse.message)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section. Called by Typer, whose argument classes are private."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        for heading, names in sections(list(commands)).items():
            rows = [(name, commands[name].get_short_help_str(_WHOLE)) for name in names]  # type: ignore[union-attr]  # they are listed, so they exist
            with formatter.section(heading):
                formatter.write_dl(rows)


def sections(commands: list[str]) -> dict[str, list[str]]:
    """Return the commands by heading; those without one come last, under their own heading."""
    placed = {name for names in SECTIONS.values() for name in names}
    by_heading = {
        heading: [name for name in names if name in commands] for heading, names in SECTIONS.items()
    }
    by_heading[_REST] = [name for name in commands if name not in placed]
    return {heading: names for heading, names in by_heading.items() if names}


def plain_wording(message: str) -> str:
    """Return the message with the validator's phrases replaced by plain words."""
    for phrase, plain in _PLAIN:
        message = phrase.sub(plain, message)
    return message
