"""`agentctx edit`: change fields of an entry, or its content in an editor."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agentctx.cli.completion import complete_category
from agentctx.cli.connection import TIMEOUT_S, WAITING_TIMEOUT_S, connect
from agentctx.cli.editor import draft, edit_file, edited_text
from agentctx.cli.entry_names import entry_id_of
from agentctx.cli.options import AsJson, EntryName, KeyNamespace, Source, Ttl, Wait
from agentctx.cli.save import acknowledge, read_content
from agentctx.client.options import EditFields
from agentctx.errors import InvalidInput, VersionConflict
from agentctx.wire import SaveResult


def edit(
    ctx: typer.Context,
    entry: EntryName,
    *,
    namespace: KeyNamespace = None,
    content: Annotated[
        str | None, typer.Option(metavar="TEXT|-", help="The new text, or - to read it from stdin.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(autocompletion=complete_category, help="The new category.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="The tags it shall have; repeat for more, '' for none."),
    ] = None,
    cue: Annotated[
        list[str] | None,
        typer.Option("--cue", metavar="TEXT", help="The cues it shall have; repeat for more, '' for none."),
    ] = None,
    source: Source = None,
    trigger: Annotated[str | None, typer.Option(help="Of a learning: what was being done.")] = None,
    error_pattern: Annotated[str | None, typer.Option(help="Of a learning: text of the error.")] = None,
    diagnosis: Annotated[str | None, typer.Option(help="Of a learning: why it went wrong.")] = None,
    fix: Annotated[str | None, typer.Option(help="Of a learning: what helped.")] = None,
    ttl: Ttl = None,
    if_version: Annotated[
        int | None, typer.Option(min=1, help="Change it only if this is the live version.")
    ] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Change an entry; what is not named stays. With nothing named, its text opens in $VISUAL or $EDITOR."""
    changes = _named(
        content=None if content is None else read_content(content),
        category=category,
        tags=[each for each in tag if each] if tag else None,
        cues=[each for each in cue if each] if cue else None,
        source=source,
        trigger=trigger,
        error_pattern=error_pattern,
        diagnosis=diagnosis,
        fix=fix,
        ttl=ttl,
    )
    guards: EditFields = {"if_version": if_version, "wait": "embedded" if wait else None}
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, namespace)
    if changes:
        result = _change(ctx, entry_id, {**changes, **guards})
    elif sys.stdin.isatty() and sys.stdout.isatty():
        result = _change_in_editor(ctx, entry_id, guards)
    else:
        raise typer.BadParameter("nothing to change: pass for example --content (an editor needs a terminal)")
    with connect(ctx) as client:
        acknowledge(client, result, is_awaited=wait, as_json=as_json)


def _named(**changes: str | list[str] | None) -> EditFields:
    return {name: value for name, value in changes.items() if value is not None}  # type: ignore[return-value]  # the names match EditFields


def _change(ctx: typer.Context, entry_id: str, changes: EditFields) -> SaveResult:
    timeout_s = WAITING_TIMEOUT_S if changes.get("wait") else TIMEOUT_S
    with connect(ctx, timeout_s=timeout_s) as client:
        return client.edit(entry_id, **changes)


def _change_in_editor(ctx: typer.Context, entry_id: str, guards: EditFields) -> SaveResult:
    """The version that was read is sent along, so that a change made meanwhile by others is not lost."""
    with connect(ctx) as client:
        entry = client.get(entry_id)
    if entry.collection == "learning":
        raise InvalidInput(
            "The text of a learning is generated from its fields.",
            hint="Change them with --trigger, --error-pattern, --diagnosis and --fix.",
        )
    if guards.get("if_version") not in {None, entry.version}:
        raise VersionConflict(f"The live version of {entry_id} is {entry.version}.")
    with draft(entry.content) as file:
        edit_file(file)
        text = edited_text(file, entry.content)
        if text == entry.content:
            return SaveResult(id=entry.id, version=entry.version, changed=False, embedding=entry.embedding)
        return _change(ctx, entry.id, {**guards, "content": text, "if_version": entry.version})
