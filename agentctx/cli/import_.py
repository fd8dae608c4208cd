"""`agentctx import`: load a file written by `agentctx export`, or another program's memory, into this one."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from threading import Thread
from typing import Annotated, BinaryIO

import typer

from agentctx.cli.connection import connect
from agentctx.cli.export_format import read_entry, read_header
from agentctx.cli.import_sending import ImportLine, ImportReport, batches, fail, report_lines, send
from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson, DryRun, Quiet, checked
from agentctx.cli.output import hint_of, show
from agentctx.config.bounded_files import lines_within
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.wire import ImportTrust

EXIT_FAILED = 1
BYTE_ORDER_MARK = "\ufeff"
MAX_HEADER_BYTES = 64 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
"""All versions of an entry: a hundred of the longest texts, at six bytes a character, are 160 MB."""
PIPE_WAIT_S = 10.0
"""How long a named pipe may have no program that writes to it."""
TIMEOUT_S = 120.0


def import_memory(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-|KIND", help="Export file; - for stdin. With --from, the kind.")
    ] = "-",
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="With --from: its file or folder. Default: the usual place."),
    ] = None,
    from_other: Annotated[
        bool, typer.Option("--from", help="Import another program's memory; without KIND, list the kinds.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE", callback=checked, help="With --from: where to save. Default: as `save`."
        ),
    ] = None,
    dry_run: DryRun = False,
    include_forgotten: Annotated[
        bool, typer.Option("--include-forgotten", help="Also restore entries that were forgotten here.")
    ] = False,
    trust: Annotated[
        ImportTrust,
        typer.Option(
            "--trust",
            help="agent: trust them like entries saved by agents, also in system prompts. Admins only.",
        ),
    ] = "external",
    review: Annotated[
        bool, typer.Option("--review", help="New entries wait until you keep them with `agentctx review`.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Import a file written by `agentctx export`, or with --from the memory of another program.

    Idempotent: rerun to resume an interrupted import. Entries keep their ids and times. Newer entries here
    stay; entries forgotten here or expired are skipped. What was in quarantine stays in it. Imported entries
    get trust `external` unless --trust is given, which the audit trail records.
    """
    from agentctx.ingest.progress import choose_progress

    report = ImportReport(dry_run, include_forgotten, trust, review)
    if from_other and file == "-":
        from agentctx.cli.import_from import kinds

        show(known := kinds(), columns([*known.items()]), as_json)
        return
    if not from_other and (path or namespace):
        raise typer.BadParameter("is for `import --from KIND`", param_hint="PATH" if path else "--namespace")
    progress, began = choose_progress(sys.stderr, quiet=quiet), time.time()
    if from_other:
        from agentctx.cli.import_from import memory_lines

        lines: Generator[ImportLine] = memory_lines(file, path, namespace, report)
    else:
        lines = _exported_lines(file, report)
    with connect(ctx, timeout_s=TIMEOUT_S) as client, closing(lines):
        progress.begin("importing", 0)
        for batch in batches(lines):
            send(client, batch, report)
            progress.done(files=len(batch))
        progress.end()
    if from_other and path is None and not dry_run:
        from agentctx.cli.import_from import source_of

        source_of(file).note_import(file, began)
    show(report, report_lines(report), as_json)
    if report.failed:
        raise typer.Exit(EXIT_FAILED)


def _exported_lines(file: str, report: ImportReport) -> Generator[ImportLine]:
    with _open_file(file) as lines:
        read_header(_first(lines))
        for number, line in enumerate(lines, start=2):
            if not line.strip():
                continue
            report.entries += 1
            try:
                yield ImportLine(f"Line {number}", read_entry(line), report.trust)
            except InvalidInput as error:
                fail(report, f"Line {number}", error)


def _first(lines: Iterator[str]) -> str:
    """Return the first line without the byte order mark that some editors prepend."""
    line = next(lines, None)
    if line is None:
        raise InvalidInput("The export is empty.", hint="Give a file written by `agentctx export`.")
    return line.removeprefix(BYTE_ORDER_MARK)


@contextmanager
def _open_file(file: str) -> Iterator[Iterator[str]]:
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else _opened(Path(file)) as opened:
            lines = lines_within(opened, MAX_LINE_BYTES, first=MAX_HEADER_BYTES)
            yield (line.decode(errors="surrogateescape") for line in lines)
    except OSError as error:
        name = "stdin" if file == "-" else file
        raise AgentctxError(f"{name} cannot be read: {error.strerror}.", hint=hint_of(error)) from error


def _opened(path: Path) -> BinaryIO:
    """Open a file or a pipe. Raises OSError; opening a pipe that nobody writes to would wait forever."""
    if not path.is_fifo():
        return path.open("rb")
    opened: list[BinaryIO] = []
    waiting = Thread(target=lambda: opened.append(path.open("rb")), daemon=True)
    waiting.start()
    waiting.join(PIPE_WAIT_S)
    if not opened:
        raise OSError(errno.EPIPE, "no program writes to this pipe")
    return opened[0]
