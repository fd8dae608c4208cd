"""`agentctx export`: entries as JSON Lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from agentctx.cli.connection import connect
from agentctx.cli.export_format import entry_line, header_line
from agentctx.cli.options import Collections
from agentctx.cli.output import note, reader_may_leave
from agentctx.errors import AccessDenied, InvalidInput

if TYPE_CHECKING:
    from agentctx.client import Client
    from agentctx.client.options import ExportOptions
    from agentctx.wire import ExportedEntry

PAGE = 100
TIMEOUT_S = 120.0


def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Where it goes; - is stdout.")] = "-",
    namespace: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE", help="Only this namespace; repeat for more.")
    ] = None,
    collection: Collections = None,
    with_vectors: Annotated[bool, typer.Option("--with-vectors", help="Also the vectors.")] = False,
    with_history: Annotated[bool, typer.Option("--with-history", help="Also older versions.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write entries as JSON Lines, of every namespace and collection unless some are named."""
    from agentctx.ingest.progress import choose_progress

    options: ExportOptions = {"limit": PAGE, "history": with_history, "vectors": with_vectors}
    options |= {"namespaces": namespace or [], "collections": collection or []}
    progress = choose_progress(sys.stderr, quiet=quiet or (file == "-" and sys.stdout.isatty()))
    with connect(ctx, timeout_s=TIMEOUT_S) as client, _opened(file) as lines:
        progress.begin("exporting", 0 if namespace or collection else _known_total(client))
        count = 0
        with reader_may_leave():
            print(header_line(history=with_history, vectors=with_vectors), file=lines)
            for exported in exported_entries(client, options):
                print(entry_line(exported), file=lines)
                count += 1
                progress.done()
        progress.end()
    if not quiet:
        note(f"exported {count:,} {'entry' if count == 1 else 'entries'}")


def exported_entries(client: Client, options: ExportOptions) -> Iterator[ExportedEntry]:
    """All entries of an export, page by page."""
    while True:
        page = client.export(**options)
        yield from page.entries
        if page.next is None:
            return
        options["cursor"] = page.next


def _known_total(client: Client) -> int:
    """How many entries there are; 0 where that is not ours to know."""
    try:
        return sum(client.status().entries.values())
    except AccessDenied:
        return 0


@contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    """The stream to write to. A file (mode 0600) appears when everything is in it."""
    if file == "-":
        yield sys.stdout
        return
    target = Path(file)
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as lines:
            yield lines
            lines.flush()
            os.fsync(lines.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
