"""Which commands there are, and how their errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from agentctx import __version__
from agentctx.cli import (
    ask,
    audit,
    backup,
    config,
    demo,
    dev,
    doctor,
    edit,
    entries,
    export,
    history,
    import_,
    ingest,
    learning,
    migrate,
    queue,
    reembed,
    restore,
    revoke,
    save,
    serve,
    service,
    status,
    top,
    undo,
    why,
    why_not,
    wrap,
)
from agentctx.cli.output import complain, put, reader_may_leave
from agentctx.cli.sections import SectionedGroup
from agentctx.errors import AgentctxError, DaemonUnreachable

EXIT_FAILED = 1
EXIT_UNREACHABLE = 3

app = typer.Typer(
    cls=SectionedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"agentctx {__version__}")
        raise typer.Exit


@app.callback()
def root(
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


app.command()(serve.serve)
app.add_typer(save.app, name="save")
app.command()(entries.get)
app.command("list")(entries.list_entries)
app.command()(edit.edit)
app.command()(history.history)
app.command()(entries.forget)
app.command()(undo.undo)
app.command()(revoke.revoke)
app.command()(revoke.release)
app.add_typer(learning.app, name="learning")
app.command()(ingest.ingest)
app.command()(ask.search)
app.command()(ask.context)
app.command()(why.why)
app.command("why-not")(why_not.why_not)
app.command()(wrap.wrap)
app.command()(status.status)
app.add_typer(queue.app, name="queue")
app.command()(top.top)
app.add_typer(config.app, name="config")
app.add_typer(service.app, name="service")
app.command()(migrate.migrate)
app.command()(reembed.reembed)
app.add_typer(audit.app, name="audit")
app.command()(backup.backup)
app.command()(restore.restore)
app.command()(export.export)
app.command("import")(import_.import_entries)
app.command()(doctor.doctor)
app.command()(demo.demo)
app.add_typer(dev.app, name="dev")


def run(args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors we expect are one or two lines on stderr."""
    _tolerate_narrow_encodings()
    try:
        app(args, prog_name="agentctx")
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except AgentctxError as error:
        complain(error)
        code = EXIT_UNREACHABLE if isinstance(error, DaemonUnreachable) else EXIT_FAILED
    return _flushed(code)


def _exit_code(leaving: SystemExit) -> int:
    if isinstance(leaving.code, int):
        return leaving.code
    return 0 if leaving.code is None else EXIT_FAILED


def _tolerate_narrow_encodings() -> None:
    """Under LANG=C a stored text must not end a command with a UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Flush before the interpreter does: a reader that went away (`| head`) is no error to report."""
    with suppress(SystemExit), reader_may_leave():
        sys.stdout.flush()
    return code
