"""`agentctx ingest --status` and `--forget-withdrawn`: the files that could not be seen or were withdrawn."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from agentctx.cli.consent import require_consent
from agentctx.cli.layout import columns, printable
from agentctx.cli.output import print_json, print_line, print_note
from agentctx.errors import NotFound
from agentctx.ingest.known import ListedPath, entries_at
from agentctx.ingest.names import escape_path
from agentctx.wire.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctx.client.sync_client import Client


@dataclass(slots=True)
class MarkedFile:
    """A file that could not be seen, is gone or says something else."""

    file: str
    state: str
    reason: str
    since: str
    until: str | None
    entries: list[str] = field(default_factory=list)


def marked_files(client: Client, paths: Sequence[str], namespace: str, collection: str) -> list[MarkedFile]:
    """Return the marked files at and below the paths, or all of them, sorted by path."""
    files: dict[tuple[str, str], MarkedFile] = {}
    for path in paths or ("/",):
        listed = ListedPath(escape_path(path))
        for entry in entries_at(client, listed, namespace=namespace, collection=collection, marked=True):
            if state := entry.file_state:
                source = entry.attributes["source"]
                made = MarkedFile(source, state.state, state.reason, state.since, state.until)
                file = files.setdefault((source, state.state), made)
                file.entries = sorted({*file.entries, entry.id})
    return [files[key] for key in sorted(files)]


def forget_withdrawn(client: Client, files: Sequence[MarkedFile], *, yes: bool) -> None:
    """Erase the entries of the withdrawn files, after consent."""
    if not yes:
        named = (printable(each.file) for each in files)
        print(" ", listed(named, most=5, separator="\n  "), file=sys.stderr)
    require_consent(f"Erase the entries of {counted(len(files), 'withdrawn file')}?", yes=yes)
    for entry_id in (each for file in files for each in file.entries):
        with suppress(NotFound):  # it was forgotten elsewhere
            client.forget(entry_id)
    print_note(f"{counted(len(files), 'file')} forgotten")


def print_marked(files: Sequence[MarkedFile], *, as_json: bool) -> None:
    if as_json:
        print_json({"files": [asdict(each) for each in files]})
        return
    ends = [f"until {each.until}" if each.until else "" for each in files]
    rows = [
        (each.state, printable(each.file), printable(each.reason), each.since, end)
        for each, end in zip(files, ends, strict=True)
    ]
    for line in columns(rows) if rows else ["every file was seen and says what its entries say"]:
        print_line(line)
