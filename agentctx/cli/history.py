"""`agentctx history`: the versions of an entry."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.entries import shown_attributes
from agentctx.cli.entry_names import entry_id_of
from agentctx.cli.layout import columns, cut, one_line, printable
from agentctx.cli.options import AsJson, EntryName, KeyNamespace
from agentctx.cli.output import Style, line_width, paint, put, put_json
from agentctx.wire import EntryView, VersionPage

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client

_COLOURS: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


def history(
    ctx: typer.Context,
    entry: EntryName,
    namespace: KeyNamespace = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what each version changed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the versions of an entry, newest first."""
    with connect(ctx) as client:
        versions = list(_all_versions(client, entry_id_of(client, entry, namespace)))
    if as_json:
        put_json(VersionPage(versions=versions, next=None))
        return
    for line in diff_lines(versions) if diff else version_lines(versions, line_width()):
        put(line)


def _all_versions(client: Client, entry_id: str) -> Iterator[EntryView]:
    page = client.history(entry_id)
    yield from page.versions
    while page.next is not None:
        page = client.history(entry_id, cursor=page.next)
        yield from page.versions


def version_lines(versions: list[EntryView], limit: int | None) -> list[str]:
    """One line for each version: number, when, what it is now, and the beginning of its content."""
    rows = [("VERSION", "UPDATED", "STATE", "CONTENT")]
    rows += [
        (str(each.version), each.updated, _state(each), one_line(each.content, None)) for each in versions
    ]
    header, *lines = (cut(line, limit) for line in columns(rows, right={0}))
    return [paint(header, "dim"), *lines]


def diff_lines(versions: list[EntryView]) -> list[str]:
    """What each version changed in attributes and content, newest first; the oldest has nothing before it."""
    lines: list[str] = []
    for newer, older in pairwise(versions):
        changes = unified_diff(_text(older), _text(newer), _name(older), _name(newer), lineterm="")
        lines += [_painted(printable(line)) for line in changes] or [f"{_name(newer)}: nothing changed"]
        lines.append("")
    oldest = versions[-1]
    return [*lines, f"{_name(oldest)}  {oldest.updated}  the first one kept"]


def _state(version: EntryView) -> str:
    return "live" if version.live else "old"


def _name(version: EntryView) -> str:
    return f"version {version.version}"


def _text(version: EntryView) -> list[str]:
    attributes = [f"{name}: {value}" for name, value in shown_attributes(version.attributes).items()]
    return [*attributes, "", *version.content.splitlines()]


def _painted(line: str) -> str:
    style = _COLOURS.get(line[:1])
    return paint(line, style) if style else line
