"""Runs the command line: imports only the called command, completes its help, and reports its errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from agentctx import __version__
from agentctx.cli.commands import COMMANDS, SECTIONS, examples_of, suggested
from agentctx.cli.output import convert_os_error, discard_stdout, print_error, print_line, writing_to
from agentctx.cli.values import ValueReader
from agentctx.config.commit import build_name, own_commit
from agentctx.errors import AgentctxError, DaemonUnreachable, InvalidInput

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
_OF_INSTALLATION: Final = frozenset({"access", "backup", "config", "doctor", "migrate", "restore"})
"""Commands that read the daemon's files directly. For root, these are the files of the system service."""
_VALUES: Final = {"int": "N", "float": "NUMBER", "path": "PATH", "str": "TEXT"}

# Typer's own imports pydantic, which takes longer than most commands. test_app.py names this line.
vars(typer.core)["build_runtime_param"] = ValueReader


class SuggestingGroup(TyperGroup):
    """A command that answers an unknown word with the subcommand that is meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the subcommand, or fail with a suggestion. Called by Typer."""
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as misuse:
            if names := suggested(args[0], self.commands):
                meant = " or ".join(f"`{ctx.command_path} {name}`" for name in names)
                misuse.message += f" Did you mean {meant}?"
            raise


class RootGroup(SuggestingGroup):
    """`agentctx`: lists its commands by section in the help, and imports the one that is called."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section. Called by Typer, whose argument classes are private."""
        del ctx
        for heading, summaries in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([*summaries.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and import its module. Called by Typer."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(name), rest


def _show_version(requested: bool) -> None:
    if requested:
        print_line(f"agentctx {build_name(__version__, own_commit())}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    socket: Annotated[
        Path | None,
        typer.Option(help="Socket of the daemon. Default: AGENTCTX_SOCKET, else the usual locations."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print version and commit."),
    ] = False,
) -> None:
    """One shared, durable memory for every agent process on a machine."""
    del version
    ctx.obj = socket
    if ctx.invoked_subcommand in _OF_INSTALLATION and socket is None:
        from agentctx.daemon.host.installed_service import follow

        follow()


def _use_socket(ctx: typer.Context, value: Path | None) -> Path | None:
    ctx.obj = value or ctx.obj
    return value


_common = typer.Typer(add_completion=False)


@_common.command()
def _declare_common(
    socket: Annotated[
        Path | None,
        typer.Option(expose_value=False, callback=_use_socket, help="Socket of the daemon."),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", expose_value=False, help="Print an error as one JSON document on stderr."),
    ] = False,
) -> None:
    """Declare the options of every command the way any command declares its own."""


def create_app() -> Any:
    """Create the command line: a `TyperGroup`, whose attributes have private types."""
    app = typer.Typer(
        cls=RootGroup,
        no_args_is_help=True,
        suggest_commands=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    root: Any = typer.main.get_command(app)
    for summaries in SECTIONS.values():
        root.commands |= {name: TyperCommand(name, help=text) for name, text in summaries.items()}
    return root


def load_command(name: str) -> Any:
    """Import a command of `agentctx` and complete its help."""
    command = resolve_name(f"agentctx.cli.{COMMANDS[name]}")
    app = typer.Typer(add_completion=False, suggest_commands=False, rich_markup_mode=None)
    app.callback()(lambda: None)  # without one, Typer would drop the name of a single command
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, cls=command.info.cls or SuggestingGroup)
    else:
        app.command(name)(command)
    loaded: Any = typer.main.get_command(app)
    _complete(loaded.commands[name], name, typer.main.get_command(_common).params)
    return loaded.commands[name]


def _complete(command: Any, path: str, common: list[Any]) -> None:
    """Add the common options, names of values, and examples to a command, or to every command of a group."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            _complete(below, f"{path} {name}", common)
        return
    own = {word for option in command.params for word in option.opts}
    command.params += [each for each in common if not own & {*each.opts}]
    for parameter in command.params:
        # Typer has no public way to keep Python's types out of the help. test_app.py names this line.
        parameter.display_type_rich = partial(value_name, parameter)
    command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples_of(path))


def value_name(parameter: Any, ctx: object = None) -> str:
    """Return what stands for a value in help: metavar, choices, or kind. An argument needs only its name."""
    if parameter.param_type_name == "argument":
        return ""
    # Choices and kinds are known only to a private class of Typer. test_app.py names this line.
    kind = parameter.metavar or str(parameter.display_type(ctx)).strip("<>")
    return _VALUES.get(kind.removesuffix(" range"), kind)


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Expected errors are printed on stderr as one or two lines,
    or with `--json` as one JSON document.
    """
    given = sys.argv[1:] if args is None else list(args)
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # LANG=C must not stop a command at a stored text
    # What follows `--` belongs to another program.
    as_json = "--json" in takewhile(lambda word: word != "--", given)
    code = _run(given, as_json=as_json)
    try:
        # Before the interpreter does, which would not ignore a closed pipe.
        with suppress(SystemExit), writing_to("stdout"):
            sys.stdout.flush()
    except AgentctxError as error:
        discard_stdout()
        return code or _failed(error, as_json=as_json)
    return code


def _run(args: Sequence[str], *, as_json: bool) -> int:
    try:
        code = create_app()(with_modes(args), prog_name="agentctx", standalone_mode=False)
    except typer.TyperException as misuse:
        return _refused(misuse, as_json=as_json)
    except typer.Abort as aborted:
        if not as_json:
            print("Aborted!", file=sys.stderr)
        # Typer raises the same for Ctrl-C at a prompt as for a no.
        return EXIT_INTERRUPTED if isinstance(aborted.__context__, KeyboardInterrupt) else EXIT_FAILED
    except SystemExit as leaving:  # Typer fails with 1 where the reader of its help needs no more
        code = 0 if isinstance(leaving.__context__, BrokenPipeError) else leaving.code
    except (AgentctxError, OSError) as error:
        return _failed(error, as_json=as_json)
    return code if isinstance(code, int) else 0


def with_modes(args: Sequence[str]) -> list[str]:
    """Return the words with the mode of a bare `--remember`: an option with a value takes the next word."""
    end = next((at for at, word in enumerate(args) if word == "--"), len(args))
    is_meant = not {"connect", "hook"}.isdisjoint(args[:end])
    return ["--remember=auto" if is_meant and each == "--remember" else each for each in args]


def _refused(misuse: Any, *, as_json: bool) -> int:
    """Report that the command line is invalid, as text in Typer's own way."""
    if as_json:
        hint = "`agentctx COMMAND --help` shows the usage."
        return _failed(InvalidInput(misuse.format_message(), hint=hint), as_json=True)
    with suppress(OSError):
        misuse.show()
    return EXIT_USAGE


def _failed(error: AgentctxError | OSError, *, as_json: bool) -> int:
    """Report the error and return the exit code, even if nothing can be printed (a closed terminal)."""
    with suppress(OSError):
        print_error(convert_os_error(error) if isinstance(error, OSError) else error, as_json=as_json)
    if isinstance(error, DaemonUnreachable):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(error, InvalidInput) else EXIT_FAILED


def _replace_closed_streams() -> None:
    """Replace closed stdin and stdout with streams that fail when used, and closed stderr with /dev/null.

    Python sets a closed stream to None, which no code expects. A descriptor opened in the wrong direction
    fails like a closed one, and keeps files that are opened later from taking its number.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            opened = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
            setattr(sys, name, opened)
