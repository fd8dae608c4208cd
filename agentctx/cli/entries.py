"""`agentctx get`, `list` and `forget`: entries by id."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import columns, one_line, printable
from agentctx.cli.options import AsJson, Collections, EntryId, Limit, Namespace, OptionalSession
from agentctx.cli.output import line_width, note, paint, put, put_json
from agentctx.wire import DEFAULT_NAMESPACE, EntryPage, EntryView

_INDENT = "    "


def get(
    ctx: typer.Context,
    entry_id: EntryId,
    version: Annotated[int | None, typer.Option(min=1, help="An earlier version of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show an entry, whole."""
    with connect(ctx) as client:
        entry = client.get(entry_id, version)
    if as_json:
        put_json(entry)
    else:
        put(describe(entry))


def list_entries(
    ctx: typer.Context,
    collection: Collections = None,
    session: OptionalSession = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Limit = None,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """List entries, newest first."""
    with connect(ctx) as client:
        page = client.list(
            collections=collection, session=session, namespace=namespace, limit=limit, cursor=cursor
        )
    if as_json:
        put_json(page)
        return
    for line in page_lines(page, line_width()):
        put(line)
    if not page.entries:
        note("there are no entries here")
    if page.next:
        note(f"there are more: --cursor {page.next}")


def forget(
    ctx: typer.Context,
    entry_id: EntryId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove an entry with all its versions, for good."""
    if sys.stdin.isatty() and not yes:
        typer.confirm(f"Remove {entry_id} with all its versions, for good?", abort=True, err=True)
    with connect(ctx) as client:
        reply = client.forget(entry_id)
    if as_json:
        put_json(reply)
    else:
        put(f"forgotten  {reply.id}  versions {reply.versions}")


def describe(entry: EntryView) -> str:
    """Every field that says something, aligned, then the content as it is."""
    facts: dict[str, Any] = {
        "id": entry.id,
        "version": f"{entry.version}{'' if entry.live else ' (not live)'}",
        "collection": entry.collection,
        "key": entry.key,
        "namespace": entry.namespace,
        "session": entry.session,
        "agent": entry.agent,
        **entry.attributes,
        "origin": f"{entry.origin}, trust {entry.trust}, uid {entry.principal}",
        "created": entry.created,
        "updated": entry.updated,
        "expires": entry.expires,
        "embedding": entry.embedding,
    }
    rows = [
        (name, one_line(_shown(value), None)) for name, value in facts.items() if value not in (None, "", [])
    ]
    return "\n".join([*columns(rows), "", printable(entry.content)])


def page_lines(page: EntryPage, limit: int | None) -> list[str]:
    """Two lines for each entry: when, what and id; then the beginning of its content."""
    if not page.entries:
        return []
    heads = [("UPDATED", "COLLECTION", "NAME", "ID")]
    heads += [(each.updated, each.collection, name_of(each), each.id) for each in page.entries]
    header, *lines = columns(heads)
    room = None if limit is None else limit - len(_INDENT)
    contents = [_INDENT + one_line(each.content, room) for each in page.entries]
    pairs = [line for pair in zip(lines, contents, strict=True) for line in pair]
    return [paint(header, "dim"), *pairs]


def name_of(entry: EntryView) -> str:
    """What a person calls it: the key, else the session."""
    return one_line(entry.key or entry.session or "-", 32)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return json.dumps(value, ensure_ascii=False)
