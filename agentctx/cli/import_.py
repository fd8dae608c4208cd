"""`agentctx import`: load a file written by `agentctx export` into the memory."""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from agentctx.cli.connection import connect
from agentctx.cli.export_format import read_entry, read_header
from agentctx.cli.options import AsJson, DryRun, Quiet
from agentctx.cli.output import hint_of, print_error, print_note, show
from agentctx.config.bounded_files import lines_within
from agentctx.errors import AgentctxError, Expired, Forgotten, InvalidInput
from agentctx.wire import ImportTrust

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import ImportEntry

EXIT_FAILED = 1
BYTE_ORDER_MARK = "\ufeff"
BATCH_CHARS = 200_000
"""Most characters in a request; the daemon accepts 1 MiB, and a character may take four bytes."""
BATCH_VERSIONS = 200
MAX_HEADER_BYTES = 64 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
"""All versions of an entry: a hundred of the longest texts, at six bytes a character, are 160 MB."""
PIPE_WAIT_S = 10.0
"""How long a named pipe may have no program that writes to it."""
TIMEOUT_S = 120.0
_MAX_COMPLAINTS = 20


@dataclass(slots=True)
class ImportReport:
    """Counts: `entries` read, `imported`, `unchanged` because they were already there, and `failed`.

    `quarantined` are those that are in quarantine, as where they were exported.
    `forgotten` are entries that were skipped because they were forgotten here, `expired` because
    their time is over.
    """

    dry_run: bool
    include_forgotten: bool = False
    trust: ImportTrust = "external"
    entries: int = 0
    imported: int = 0
    unchanged: int = 0
    forgotten: int = 0
    expired: int = 0
    quarantined: int = 0
    failed: int = 0
    redacted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    versions: list[ImportEntry]


def import_entries(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Export file; - for stdin.")] = "-",
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
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Import a file written by `agentctx export`. Idempotent: rerun to resume an interrupted import.

    Entries keep their ids and times. Newer entries here stay; entries forgotten here or expired are
    skipped. What was in quarantine stays in it. Imported entries get trust `external` unless --trust is
    given, which the audit trail records.
    """
    from agentctx.ingest.progress import choose_progress

    report = ImportReport(dry_run, include_forgotten, trust)
    progress = choose_progress(sys.stderr, quiet=quiet)
    with connect(ctx, timeout_s=TIMEOUT_S) as client, _open_file(file) as lines:
        read_header(_first(lines))
        progress.begin("importing", 0)
        for batch in _batches(_parsed(lines, report)):
            _send(client, batch, report)
            progress.done(files=len(batch))
        progress.end()
    show(report, [report_line(report)], as_json)
    if report.failed:
        raise typer.Exit(EXIT_FAILED)


def report_line(report: ImportReport) -> str:
    """Return the counts on one line."""
    done = "would import" if report.dry_run else "imported"
    parts = [f"{done} {report.imported:,}", f"already there {report.unchanged:,}"]
    if report.quarantined:
        parts.append(f"in quarantine {report.quarantined:,}")
    if report.forgotten:
        parts.append(f"skipped as forgotten {report.forgotten:,}")
    if report.expired:
        parts.append(f"skipped as expired {report.expired:,}")
    if report.failed:
        parts.append(f"failed {report.failed:,}")
    if report.redacted:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.redacted.items()))
        parts.append(f"redacted {kinds}")
    return "  ".join(parts)


def _parsed(lines: Iterator[str], report: ImportReport) -> Iterator[_Line]:
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        report.entries += 1
        try:
            yield _Line(number, read_entry(line))
        except InvalidInput as error:
            _fail(report, number, error)


def _batches(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """Yield batches of lines, one for each request. All versions of an entry stay together."""
    batch: list[_Line] = []
    versions = chars = 0
    for line in lines:
        size = sum(len(version.content) for version in line.versions)
        is_full = versions + len(line.versions) > BATCH_VERSIONS or chars + size > BATCH_CHARS
        if batch and is_full:
            yield batch
            batch, versions, chars = [], 0, 0
        batch.append(line)
        versions += len(line.versions)
        chars += size
    if batch:
        yield batch


def _send(client: Client, batch: list[_Line], report: ImportReport) -> None:
    """Import a batch; if the daemon refuses the whole request, send each line, then each version, alone."""
    versions = [version for line in batch for version in line.versions]
    try:
        outcomes = _import(client, versions, report)
    except InvalidInput as error:
        if len(batch) > 1:
            for line in batch:
                _send(client, [line], report)
        elif len(versions) > 1:
            _note(report, batch[0], list(_import_alone(client, versions, report)))
        else:
            _fail(report, batch[0].number, error)
        return
    arrived = iter(outcomes)
    for line in batch:
        _note(report, line, [next(arrived) for _ in line.versions])


def _import(client: Client, versions: list[ImportEntry], report: ImportReport) -> Sequence[object]:
    return client.import_entries(
        versions,
        dry_run=report.dry_run,
        include_forgotten=report.include_forgotten,
        trust=report.trust,
    )


def _import_alone(client: Client, versions: list[ImportEntry], report: ImportReport) -> Iterator[object]:
    for version in versions:
        try:
            # The last version of a request sets the expiry, and alone each is the last.
            yield from _import(client, [replace(version, expires=versions[-1].expires)], report)
        except InvalidInput as error:
            yield error


def _note(report: ImportReport, line: _Line, outcomes: list[object]) -> None:
    errors = [outcome for outcome in outcomes if isinstance(outcome, AgentctxError)]
    if errors and all(isinstance(error, Forgotten) for error in errors):
        report.forgotten += 1
        return
    if errors and all(isinstance(error, Expired) for error in errors):
        report.expired += 1
        return
    if errors:
        _fail(report, line.number, errors[0])
        return
    report.redacted = dict(
        Counter(report.redacted)
        + Counter(kind for each in outcomes for kind in getattr(each, "redacted", ()))
    )
    report.quarantined += getattr(outcomes[-1], "quarantined", False)
    if any(getattr(outcome, "changed", False) for outcome in outcomes):
        report.imported += 1
    else:
        report.unchanged += 1


def _fail(report: ImportReport, number: int, error: AgentctxError) -> None:
    report.failed += 1
    if report.failed <= _MAX_COMPLAINTS:
        print_error(InvalidInput(f"Line {number}: {error.message}", hint=error.hint))
    elif report.failed == _MAX_COMPLAINTS + 1:
        print_note("more lines failed; they are only counted")


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
