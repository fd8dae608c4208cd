"""The commands and their modules, in the order and below the headings of `agentctx --help`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

from agentctx.cli.common_options import complete_commands

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Remember": {
        "save": "save.app",
        "ingest": "ingest.ingest",
        "edit": "edit.edit",
        "learning": "save.outcomes",
        "forget": "entries.forget",
        "undo": "undo.undo",
        "revoke": "revoke.revoke",
        "release": "revoke.release",
    },
    "Ask": {
        "search": "ask.search",
        "context": "ask.context",
        "why": "why.why",
        "why-not": "why.why_not",
        "get": "entries.get",
        "list": "entries.list_entries",
        "history": "entries.history",
        "namespaces": "namespaces.namespaces",
        "wrap": "wrap.wrap",
    },
    "Connect": {"connect": "connect.connect", "mcp": "agents.mcp", "hook": "agents.hook"},
    "Operate": {
        "serve": "serve.serve",
        "status": "status.status",
        "top": "top.top",
        "doctor": "doctor.doctor",
        "queue": "queue.app",
        "config": "config.app",
        "access": "access.app",
        "service": "service.app",
        "reembed": "reembed.reembed",
        "demo": "demo.demo",
        "dev": "dev.app",
    },
    "Keep safe": {
        "backup": "backup.backup",
        "restore": "restore.restore",
        "export": "export.export",
        "import": "import_.import_entries",
        "migrate": "migrate.migrate",
        "audit": "audit.app",
    },
}
"""By heading and command: a module below `agentctx.cli` and its function, or its app with subcommands."""
_WHOLE = 1_000
"""Width limit so large that long first sentences are wrapped, not cut."""
MISUSE: Any = typer.BadParameter.__bases__[0]
"""Base class of Typer's usage errors; Typer exports only its subclass."""

_SYNONYMS: Final[Mapping[str, str]] = {
    "save": "add remember store put write note memorize memorise record create new",
    "forget": "delete del rm remove erase drop",
    "search": "find recall ask query lookup grep",
    "get": "show cat view read print",
    "list": "ls all",
    "edit": "update change modify set",
    "connect": "setup install disconnect link",
    "serve": "start run up daemon",
    "service": "stop restart enable disable",
    "status": "info health ps show",
    "grant": "add allow give share",
    "install": "start enable add",
}
"""By command or subcommand: what others call it."""

_PLAIN: Final = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"use \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"use \1 or less"),
    (re.compile(r"Input should be greater than (\S+)"), r"use more than \1"),
    (re.compile(r"Input should be less than (\S+)"), r"use less than \1"),
    (re.compile(r"Input should be a valid integer.*"), "use a whole number"),
    (re.compile(r"Input should be a valid number.*"), "use a number"),
)


class SuggestingGroup(TyperGroup):
    """A command that answers an unknown word with the subcommand that is meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the subcommand, or fail with a suggestion. Called by Typer."""
        self.suggest_commands = False
        try:
            return super().resolve_command(ctx, args)
        except MISUSE as misuse:
            if names := suggested(args[0], self.commands):
                meant = " or ".join(f"`{ctx.command_path} {name}`" for name in names)
                misuse.message += f" Did you mean {meant}?"
            raise


class SectionedGroup(SuggestingGroup):
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
        for heading, names in sections(commands).items():
            rows = [(name, commands[name].get_short_help_str(_WHOLE)) for name in names]  # type: ignore[union-attr]  # they are listed, so they exist
            with formatter.section(heading):
                formatter.write_dl(rows)


def suggested(word: str, commands: Collection[str]) -> list[str]:
    """Return the commands that go by this word elsewhere, else those that are spelt like it."""
    known = [name for name in commands if word.lower() in _SYNONYMS.get(name, "").split()]
    return known or ([] if word.startswith("-") else get_close_matches(word.lower(), commands))


def sections(commands: Collection[str]) -> dict[str, list[str]]:
    """Return these commands by heading."""
    by_heading = {
        heading: [name for name in names if name in commands] for heading, names in SECTIONS.items()
    }
    return {heading: names for heading, names in by_heading.items() if names}


def plain_wording(message: str) -> str:
    """Return the message with the validator's phrases replaced by plain words."""
    for phrase, plain in _PLAIN:
        message = phrase.sub(plain, message)
    return message
