"""`agentctx ingest --status` and `--forget-withdrawn`: the files that could not be seen or were withdrawn."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from agentctx.cli.consent import require_consent
from agentctx.cli.layout import columns, printable
from agentctx.cli.output import print_line, print_note, writes_unicode
from agentctx.errors import NotFound
from agentctx.ingest.known import Place, entries_at
from agentctx.ingest.names import escape_path
from agentctx.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctx.client.sync_client import Client


@dataclass(frozen=True, slots=True)
class MarkedFiles:
    """Where to look for marked files: at and below the paths, or everywhere if there are none."""

    paths: tuple[str, ...]
    namespace: str
    collection: str


@dataclass(slots=True)
class MarkedFile:
    """A file that could not be seen, is gone or says something else."""

    file: str
    state: str
    reason: str
    since: str
    until: str | None
    entries: list[str] = field(default_factory=list)


def show_file_states(client: Client, wanted: MarkedFiles, *, as_json: bool) -> None:
    """Print the marked files, sorted by path."""
    _print_files(_marked(client, wanted), as_json=as_json)


def forget_withdrawn_files(
    client: Client, wanted: MarkedFiles, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Erase the entries of the withdrawn files, after consent."""
    files = [each for each in _marked(client, wanted) if each.state == "withdrawn"]
    if files and not dry_run:
        if not (yes or as_json):
            print(
                " ",
                listed((printable(each.file) for each in files), most=5, separator="\n  "),
                file=sys.stderr,
            )
        entries = counted(sum(len(each.entries) for each in files), "entry", "entries")
        require_consent(f"Erase the {entries} of {counted(len(files), 'withdrawn file')}?", yes=yes)
        for each in files:
            for entry_id in each.entries:
                with suppress(NotFound):  # it returned, or was forgotten elsewhere
                    client.forget(entry_id)
    _print_files(files, as_json=as_json)
    if files and not as_json:
        print_note(f"{counted(len(files), 'file')} {'would be ' if dry_run else ''}forgotten")


def _marked(client: Client, wanted: MarkedFiles) -> list[MarkedFile]:
    files: dict[tuple[str, str], MarkedFile] = {}
    for path in wanted.paths or ("/",):
        place = Place(escape_path(path))
        found = entries_at(
            client, place, namespace=wanted.namespace, collection=wanted.collection, marked=True
        )
        for entry in found:
            state = entry.file_state
            if state is None:
                continue
            source = entry.attributes["source"]
            made = MarkedFile(source, state.state, state.reason, state.since, state.until)
            file = files.setdefault((source, state.state), made)
            if entry.id not in file.entries:
                file.entries.append(entry.id)
    return [files[key] for key in sorted(files)]


def _print_files(files: Sequence[MarkedFile], *, as_json: bool) -> None:
    if as_json:
        document = {"files": [asdict(each) for each in files]}
        print_line(json.dumps(document, ensure_ascii=not writes_unicode(), indent=2))
        return
    rows = [
        (
            each.state,
            printable(each.file),
            each.reason,
            each.since,
            f"until {each.until}" if each.until else "",
        )
        for each in files
    ]
    for line in columns(rows) if rows else ["every file was seen and says what its entries say"]:
        print_line(line)
