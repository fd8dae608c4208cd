"""`agentctx export`: entries as JSON Lines, or in the format of another program."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from agentctx.cli.connection import connect
from agentctx.cli.export_format import entry_line, header_line
from agentctx.cli.options import Collections, Quiet, checked
from agentctx.cli.output import hint_of, print_note, writing_to
from agentctx.config.entry_points import load_offered
from agentctx.errors import AccessDenied, AgentctxError
from agentctx.wire.wording import counted

if TYPE_CHECKING:
    from agentctx.client.options import ExportOptions
    from agentctx.client.sync_client import Client
    from agentctx.wire import ExportedEntry

PAGE = 100
TIMEOUT_S = 120.0


def export(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="File to write; - for stdout. With --to markdown, a folder."),
    ] = "-",
    to: Annotated[
        Literal["jsonl", "markdown", "mem0"],
        typer.Option("--to", help="Format; all but jsonl are of the live versions and without vectors."),
    ] = "jsonl",
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMESPACE", callback=checked, help="Only this namespace; repeat for more."),
    ] = None,
    collection: Collections = None,
    with_vectors: Annotated[bool, typer.Option("--with-vectors", help="Include the vectors.")] = False,
    with_history: Annotated[bool, typer.Option("--with-history", help="Include older versions.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write entries as JSON Lines, from all namespaces and collections unless some are named."""
    from agentctx.ingest.progress import choose_progress

    if to != "jsonl" and (with_vectors or with_history):
        raise typer.BadParameter("only jsonl has history and vectors", param_hint="--to")
    if to == "markdown" and file == "-":
        raise typer.BadParameter("name the folder to write", param_hint="--to markdown")
    options: ExportOptions = {"limit": PAGE, "history": with_history, "vectors": with_vectors}
    options |= {"namespaces": namespace or [], "collections": collection or []}
    progress = choose_progress(sys.stderr, quiet=quiet or (file == "-" and sys.stdout.isatty()))
    count = 0
    with connect(ctx, timeout_s=TIMEOUT_S) as client:

        def entries() -> Iterator[ExportedEntry]:
            nonlocal count
            progress.begin("exporting", 0 if namespace or collection else _known_total(client))
            for count, each in enumerate(exported_entries(client, options), start=1):  # noqa: B007
                yield each
                progress.done()

        if to == "markdown":
            with writing_to(file):
                _writer(to)(entries(), file)
        else:
            with _open_file(file) as lines:
                if to == "jsonl":
                    print(header_line(history=with_history, vectors=with_vectors), file=lines)
                for line in map(entry_line, entries()) if to == "jsonl" else _writer(to)(entries()):
                    print(line, file=lines)
        progress.end()
    if not quiet:
        print_note(f"exported {counted(count, 'entry', 'entries')}")


def _writer(to: str) -> Any:
    offered: dict[str, Any] = {"package": "agentctx-importers", "refusal": AgentctxError}
    return load_offered("agentctx.exporters", to, needed_by=f"`agentctx export --to {to}`", **offered)


def exported_entries(client: Client, options: ExportOptions) -> Iterator[ExportedEntry]:
    """Yield all entries of an export, fetching page by page."""
    while True:
        page = client.export(**options)
        yield from page.entries
        if page.next is None:
            return
        options["cursor"] = page.next


def _known_total(client: Client) -> int:
    """Return the number of entries, or 0 if the caller may not know it."""
    try:
        return sum(client.status().entries.values())
    except AccessDenied:
        return 0


@contextmanager
def _open_file(file: str) -> Iterator[TextIO]:
    """Yield the stream to write to. A file (mode 0600) is created or replaced only once it is complete.

    An existing path that is not a regular file (a device, a FIFO) is written to as it is; a link stays a
    link.

    Raises:
        AgentctxError: the file cannot be opened or written.
    """
    present = None if file == "-" else _present(file)
    if file == "-" or _is_stdout(present):
        with writing_to("stdout"):
            yield sys.stdout
        return
    opened: AbstractContextManager[TextIO]
    if present is None or stat.S_ISREG(present.st_mode):
        opened = _open_temporary(Path(os.path.realpath(file)))
    elif stat.S_ISDIR(present.st_mode):
        raise AgentctxError(f"{file} is a folder.", hint="Give a file inside it.")
    else:
        try:
            opened = os.fdopen(os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY), "w", encoding="utf-8")
        except OSError as error:
            raise _unusable(file, error) from error
    with writing_to(file), opened as lines:
        yield lines


def _present(file: str) -> os.stat_result | None:
    """Return the status of the file, following links, or None if it does not exist."""
    try:
        return Path(file).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from error


def _is_stdout(present: os.stat_result | None) -> bool:
    """Return whether the file is stdout itself (/dev/stdout), which may be redirected to append."""
    try:
        return present is not None and os.path.samestat(present, os.fstat(sys.stdout.fileno()))
    except OSError:
        return False


@contextmanager
def _open_temporary(target: Path) -> Iterator[TextIO]:
    """Yield a file beside the target; it replaces the target at the end and is removed if the block fails."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(str(target), error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as lines:
            yield lines
            lines.flush()
            os.fsync(lines.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _unusable(file: str, error: OSError) -> AgentctxError:
    return AgentctxError(f"{file} cannot be written: {error.strerror}.", hint=hint_of(error))
