"""What all commands have in common: the root's options, and how errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from agentctx import __version__
from agentctx.cli.output import (
    complain,
    complain_in_json,
    discard_stdout,
    error_of_system,
    put,
    reader_may_leave,
    writing_to,
)
from agentctx.cli.sections import MISUSE, SectionedGroup
from agentctx.errors import AgentctxError, DaemonUnreachable, InvalidInput

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130


def create_root() -> typer.Typer:
    """`agentctx` with its own options and no commands yet."""
    app = typer.Typer(
        cls=SectionedGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"agentctx {__version__}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    socket: Annotated[
        Path | None,
        typer.Option(help="Socket of the daemon. Default: AGENTCTX_SOCKET, else the usual places."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """One shared, durable memory for every agent process on a machine."""
    del version
    ctx.obj = socket


def run_app(app: typer.Typer, args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors we expect are one or two lines on stderr, or with
    `--json` one JSON document.
    """
    replace_closed_streams()
    _tolerate_narrow_encodings()
    as_json = wants_json(sys.argv[1:] if args is None else args)
    try:
        _invoke(app, args, as_json=as_json)
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BrokenPipeError:
        code = 0
    except (AgentctxError, OSError) as error:
        code = _failed(error, as_json=as_json)
    return _flushed(code, as_json=as_json)


def wants_json(args: Sequence[str]) -> bool:
    """Whether a command is asked for JSON; what follows `--` belongs to another program."""
    return "--json" in takewhile(lambda word: word != "--", args)


def _invoke(app: typer.Typer, args: Sequence[str] | None, *, as_json: bool) -> None:
    """Run the command. A misuse is printed by typer as text; for JSON it becomes an error of ours."""
    if not as_json:
        app(args, prog_name="agentctx")
        return
    try:
        code = app(args, prog_name="agentctx", standalone_mode=False)
    except typer.Abort:
        raise SystemExit(EXIT_FAILED) from None
    except MISUSE as misuse:
        raise InvalidInput(
            misuse.format_message(), hint="`agentctx COMMAND --help` shows the usage."
        ) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _failed(error: AgentctxError | OSError, *, as_json: bool) -> int:
    """Report it; returns the exit code. There may be no reader: a closed terminal fails too."""
    known = error_of_system(error) if isinstance(error, OSError) else error
    with suppress(OSError):
        (complain_in_json if as_json else complain)(known)
    if isinstance(error, DaemonUnreachable):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(error, InvalidInput) else EXIT_FAILED


def _exit_code(leaving: SystemExit) -> int:
    if _is_interrupted_prompt(leaving):
        return EXIT_INTERRUPTED
    if isinstance(leaving.code, int):
        return leaving.code
    return 0 if leaving.code is None else EXIT_FAILED


def _is_interrupted_prompt(leaving: SystemExit) -> bool:
    """Whether Ctrl-C ended a question; the library makes the same `Abort` of it as of a no."""
    aborted = leaving.__context__
    return isinstance(aborted, typer.Abort) and isinstance(aborted.__context__, KeyboardInterrupt)


def _tolerate_narrow_encodings() -> None:
    """Under LANG=C a stored text must not end a command with a UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int, *, as_json: bool) -> int:
    """Flush before the interpreter does: a reader that went away (`| head`) is not an error."""
    try:
        with suppress(SystemExit), reader_may_leave(), writing_to("stdout"):
            sys.stdout.flush()
    except AgentctxError as error:
        discard_stdout()
        return code or _failed(error, as_json=as_json)
    return code


def replace_closed_streams() -> None:
    """Give each missing standard stream one that fails when it is used, and stderr one that forgets.

    Python has None there, which no code expects. A descriptor opened the wrong way round makes the system
    answer as for a closed one, and keeps files that are opened later from taking the number.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
