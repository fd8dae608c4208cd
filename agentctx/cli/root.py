"""What all commands share: the root options, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final

import typer

from agentctx import __version__
from agentctx.cli.output import (
    convert_os_error,
    discard_stdout,
    exit_on_broken_pipe,
    print_error,
    print_error_json,
    print_line,
    writing_to,
)
from agentctx.cli.sections import MISUSE, SectionedGroup
from agentctx.commit import build_name, own_commit
from agentctx.errors import AgentctxError, DaemonUnreachable, InvalidInput

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
_OF_INSTALLATION: Final = frozenset({"access", "backup", "config", "doctor", "migrate", "restore"})
"""Commands that read the daemon's files directly. For root, these are the files of the system service."""


def create_root() -> typer.Typer:
    """Create `agentctx` with its root options, without any commands."""
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
        from agentctx.host.installed_service import follow

        follow()


def run_app(app: typer.Typer, args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Expected errors are printed on stderr as one or two lines,
    or with `--json` as one JSON document.
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
    """Return whether the arguments ask for JSON; what follows `--` belongs to another program."""
    return "--json" in takewhile(lambda word: word != "--", args)


def _invoke(app: typer.Typer, args: Sequence[str] | None, *, as_json: bool) -> None:
    """Run the command. Typer prints a usage error as text; for JSON, convert it to `InvalidInput`."""
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
    """Report the error and return the exit code, even if nothing can be printed (a closed terminal)."""
    known = convert_os_error(error) if isinstance(error, OSError) else error
    with suppress(OSError):
        (print_error_json if as_json else print_error)(known)
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
    """Return whether Ctrl-C ended a prompt; the library raises the same `Abort` as for a no."""
    aborted = leaving.__context__
    return isinstance(aborted, typer.Abort) and isinstance(aborted.__context__, KeyboardInterrupt)


def _tolerate_narrow_encodings() -> None:
    """Escape what a stream cannot encode: under LANG=C stored text must not raise UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int, *, as_json: bool) -> int:
    """Flush stdout before the interpreter does, and return the exit code, ignoring a closed pipe."""
    try:
        with suppress(SystemExit), exit_on_broken_pipe(), writing_to("stdout"):
            sys.stdout.flush()
    except AgentctxError as error:
        discard_stdout()
        return code or _failed(error, as_json=as_json)
    return code


def replace_closed_streams() -> None:
    """Replace closed stdin and stdout with streams that fail when used, and closed stderr with /dev/null.

    Python sets a closed stream to None, which no code expects. A descriptor opened in the wrong direction
    fails like a closed one, and keeps files that are opened later from taking its number.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
