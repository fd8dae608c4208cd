"""`agentctx get`, `list`, `forget` and `history`: entries by id or key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentctx.cli.connection import connect, entry_id_of
from agentctx.cli.consent import require_consent
from agentctx.cli.elsewhere import entries_elsewhere, namespace_label
from agentctx.cli.layout import columns, file_size, one_line, printable, width
from agentctx.cli.options import (
    AsJson,
    AskedNamespaces,
    DryRun,
    EntryName,
    KeyNamespace,
    Yes,
    filter_options,
    with_options,
)
from agentctx.cli.output import Style, line_width, paint, print_line, show, table
from agentctx.cli.scope import ask, merged
from agentctx.client.options import EntryFilter
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.names import readable
from agentctx.wire import EntryPage, EntryView, ForgetAllReply, ForgetReply, VersionPage
from agentctx.wire.wording import counted, held_by_backups

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client


ReplyT = TypeVar("ReplyT", ForgetReply, ForgetAllReply)
_INDENT = "    "
_WIDE = 110
"""Minimum terminal width in columns at which times are shown with milliseconds, and ids beside keys."""
_COLOURS: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


def get(
    ctx: typer.Context,
    entry: EntryName,
    version: Annotated[
        int | None, typer.Option(min=1, help="Show this version instead of the live one.")
    ] = None,
    namespace: KeyNamespace = None,
    as_json: AsJson = False,
) -> None:
    """Show an entry in full."""
    with connect(ctx) as client:
        shown = client.get(entry_id_of(client, entry, namespace), version)
    show(shown, [describe(shown)], as_json)


@with_options(filter_options)
def list_entries(
    ctx: typer.Context,
    *,
    options: EntryFilter,
    namespaces: AskedNamespaces = None,
    everywhere: Annotated[bool, typer.Option("--all", help="In every namespace that you may read.")] = False,
    key: Annotated[str | None, typer.Option(help="Only with this key.")] = None,
    withdrawn: Annotated[
        bool, typer.Option("--withdrawn", help="Also entries whose file is gone or says something else.")
    ] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only what waits for a review, and is in no answer.")
    ] = False,
    cursor: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Continue after a page: the cursor printed at its end."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List entries, newest first."""
    if everywhere and namespaces:
        raise typer.BadParameter("cannot be combined with --namespace", param_hint="--all")
    with connect(ctx) as client:
        if everywhere:
            known = client.review().captures if waiting else client.namespaces().namespaces
            namespaces = list(dict.fromkeys(each.namespace for each in known)) or None
        only = waiting or None
        list_one = partial(client.list, **options, key=key, withdrawn=withdrawn, waiting=only, cursor=cursor)
        asked, page = ask(
            client,
            namespaces,
            lambda asked: merged([list_one(namespace=each) for each in asked], options.get("limit")),
        )
        nothing = None if page.entries or as_json else _nothing(client, asked)
    more = f"there are more: --cursor {page.next}" if page.next else None
    home = "" if everywhere else asked[0]
    show(page, page_lines(page, line_width(), home=home), as_json, nothing, more)


def _nothing(client: Client, asked: list[str]) -> str:
    with suppress(AgentctxError):  # the question was answered; this is only a help
        if waiting := sum(each.waiting for each in client.review().captures if each.namespace in asked):
            return f"no entries found; `agentctx list --waiting` shows {waiting:,} waiting for a review"
    elsewhere = entries_elsewhere(client, asked)
    return f"no entries found; {elsewhere or '`agentctx save --help` shows how to save one'}"


def forget(
    ctx: typer.Context,
    entry: Annotated[
        str | None,
        typer.Argument(metavar="ID|KEY", help="Id or key of the entry. Not needed with --all or --rewrite."),
    ] = None,
    namespace: KeyNamespace = None,
    with_copies: Annotated[
        bool, typer.Option("--with-copies", help="Also forget captured replies that repeat it.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Forget all entries of the namespace, which --namespace must name.")
    ] = False,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite",
            help="Then rewrite the database's files, so that they hold no byte of what was deleted, and make "
            "a backup that replaces all automatic ones. Saves wait meanwhile; with PostgreSQL, searches too. "
            "Only for admins.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete an entry, or all of a namespace, with all versions permanently."""
    if everything:
        if entry is not None or with_copies:
            raise typer.BadParameter("forgets all of a namespace and takes no entry", param_hint="--all")
        _forget_all(ctx, namespace, rewrite=rewrite, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if entry is None:
        if not rewrite or dry_run:
            raise InvalidInput("No entry is named.", hint="`agentctx list` shows ids and keys.")
        with connect(ctx) as client:
            rewritten = client.rewrite()
        lines = ["rewritten  nothing deleted is left in the database's files"]
        if rewritten.backup:
            lines.append(f"backed up  {rewritten.backup}  removed {len(rewritten.backups_removed)} older")
        show(rewritten, lines, as_json, *_notes_on_remains(rewritten.remains))
        return
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, namespace)
        if dry_run:
            shown = client.get(entry_id)
            name = f"  {name_of(shown)}" if shown.key else ""
            show(shown, [f"would be forgotten  {shown.id}{name}  versions 1 to {shown.version}"], as_json)
            return
        require_consent(f"Delete {entry} and all its versions permanently?", yes=yes)
        reply = client.forget(entry_id, with_copies=with_copies)
        if not as_json:
            _report_forgotten(reply)
        if rewrite:
            reply = _rewritten(client, reply)
    show(reply, [], as_json, *_notes_on_copies(reply))


def _forget_all(
    ctx: typer.Context, namespace: str | None, *, rewrite: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    if namespace is None:
        raise typer.BadParameter("say of which namespace: --namespace NAME", param_hint="--all")
    with connect(ctx) as client:
        reply = client.forget_all(namespace, dry_run=True)
        what = f"{counted(reply.entries, 'entry', 'entries')} of {readable(namespace)}"
        if not dry_run:
            require_consent(f"Delete {what} permanently? This cannot be undone.", yes=yes)
            reply = client.forget_all(namespace)
        if rewrite and not dry_run:
            reply = _rewritten(client, reply)
    line = f"{'would be ' if dry_run else ''}forgotten  {what}"
    show(reply, [line], as_json, *([] if dry_run else _notes_elsewhere(reply)))


def _rewritten(client: Client, reply: ReplyT) -> ReplyT:
    """Rewrite the files, and return the reply to a forget with what is left of the text afterwards."""
    rewritten = client.rewrite()
    reply = replace(reply, remains=rewritten.remains)
    return replace(reply, backups=0, backups_until=None) if rewritten.backup else reply


def _report_forgotten(reply: ForgetReply) -> None:
    print_line(f"forgotten  {reply.id}  versions {reply.versions}")
    for copy in reply.copies_forgotten:
        print_line(f"forgotten  {copy}  a captured reply that repeated it")
    for part in reply.parts:
        print_line(f"kept  the other part of the turn: {part}")


def _notes_on_copies(reply: ForgetReply) -> list[str]:
    """Return remarks on where the text may still exist."""
    remarks = []
    if reply.copies:
        remarks.append(
            f"captured replies repeat it: {', '.join(reply.copies)}; forget them too, or use --with-copies"
        )
    return remarks + _notes_elsewhere(reply)


def _notes_elsewhere(reply: ForgetReply | ForgetAllReply) -> list[str]:
    remarks = []
    if held := held_by_backups(reply.backups, reply.backups_until):
        remarks.append(held)
    return remarks + _notes_on_remains(reply.remains)


def _notes_on_remains(remains: Sequence[str]) -> list[str]:
    return [f"deleted data may remain in {place}" for place in remains]


def describe(entry: EntryView) -> str:
    """Return the nonempty fields, aligned, then the content."""
    facts: dict[str, Any] = {
        "id": entry.id,
        "version": f"{entry.version}{'' if entry.live else ' (not live)'}",
        "collection": entry.collection,
        "key": entry.key,
        "namespace": readable(entry.namespace),
        "session": entry.session,
        "agent": entry.agent,
        **shown_attributes(entry.attributes),
        "origin": f"{entry.origin}, trust {entry.trust}, uid {entry.principal}",
        "made of": entry.derived_from,
        "flags": entry.flags,
        "quarantine": quarantine_of(entry),
        "file state": _file_state_of(entry),
        f"{entry.superseded or 'superseded'} by": entry.superseded_by,
        "created": entry.created,
        "updated": entry.updated,
        "expires": entry.expires,
        "embedding": entry.embedding,
    }
    rows = [
        (name, one_line(_shown(value), None)) for name, value in facts.items() if value not in (None, "", [])
    ]
    return "\n".join([*columns(rows), "", printable(entry.content)])


def shown_attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the nonempty attributes, each on one line."""
    return {
        name: one_line(
            file_record(value) if name == "file" and isinstance(value, Mapping) else _shown(value), None
        )
        for name, value in attributes.items()
        if value not in (None, "", [])
    }


def file_record(record: Mapping[str, Any]) -> str:
    """Return the `file` attribute of an entry on one line, without its long list of places."""
    digest = str(record.get("digest", ""))
    parts = record.get("parts", 1)
    shown = [
        f"part {record.get('part', 1)} of {parts}" if parts != 1 else "",
        file_size(record.get("size", 0)),
        f"sha256 {digest[:12]}" if digest else "",
    ]
    return ", ".join(filter(None, shown))


def page_lines(page: EntryPage, limit: int | None, *, home: str | None = None) -> list[str]:
    """Return two lines for each entry: time, collection, name and id; then the beginning of its content.

    Where that is too wide, the key, or without one the id, stands for both: either names the entry in
    commands, so neither is ever cut. The namespace of an entry is shown unless it is `home`; without a home,
    none is.
    """
    if not page.entries:
        return []
    heads = [("UPDATED", "COLLECTION", "NAME", "ID"), *map(_head, page.entries)]
    if limit is not None and (limit < _WIDE or max(map(width, columns(heads))) > limit):
        heads = [
            ("UPDATED", "COLLECTION", "KEY OR ID"),
            *(
                (each.updated[:16].replace("T", " "), each.collection, one_line(each.key or each.id, None))
                for each in page.entries
            ),
        ]
    header, *lines = table(heads[0], heads[1:], None)
    room = None if limit is None else limit - len(_INDENT)
    contents = [_INDENT + one_line(_labels(each, home) + each.content, room) for each in page.entries]
    pairs = [line for pair in zip(lines, contents, strict=True) for line in pair]
    return [header, *pairs]


def _head(entry: EntryView) -> tuple[str, ...]:
    return entry.updated, entry.collection, name_of(entry), entry.id


def quarantine_of(entry: EntryView) -> str | None:
    """Return why the entry is in quarantine and the command that releases it, or None if it is not."""
    if entry.quarantined is None:
        return None
    if entry.quarantined == "waiting":
        return "it waits for a review, `agentctx review`"
    if entry.revocation is not None:
        return f"revoked, `agentctx revoke --undo {entry.revocation}` undoes it"
    return f"for its flags, `agentctx release {entry.id}` releases it"


def _file_state_of(entry: EntryView) -> str | None:
    state = entry.file_state
    if state is None:
        return None
    until = f", until {state.until}" if state.until else ""
    return f"{state.state} since {state.since}{until}: {state.reason}"


def _labels(entry: EntryView, home: str | None) -> str:
    """Return namespace, quarantine and flags of the entry in brackets, as a prefix of its text."""
    labels = namespace_label(entry.namespace, home)
    held = "waiting" if entry.quarantined == "waiting" else f"in quarantine: {entry.quarantined}"
    labels += [held] if entry.quarantined else []
    labels += [entry.file_state.state] if entry.file_state else []
    labels += [entry.superseded] if entry.superseded else []
    labels += entry.flags
    return f"[{', '.join(labels)}] " if labels else ""


def name_of(entry: EntryView) -> str:
    """Return the name of the entry for people: its key, else its session, else `-`."""
    return one_line(entry.key or entry.session or "-", None)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def history(
    ctx: typer.Context,
    entry: EntryName,
    namespace: KeyNamespace = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what each version changed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the versions of an entry, newest first."""
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, namespace)
        page = client.history(entry_id)
        versions = list(page.versions)
        while page.next is not None:
            page = client.history(entry_id, cursor=page.next)
            versions += page.versions
    if diff:
        lines = diff_lines(versions)
    else:
        rows = [
            (str(each.version), each.updated, "live" if each.live else "old", one_line(each.content, None))
            for each in versions
        ]
        lines = table(("VERSION", "UPDATED", "STATE", "CONTENT"), rows, line_width(), right={0})
    gone = versions[0].version - len(versions)
    note = f"{counted(gone, 'version')} not kept (limits.max_versions)" if gone > 0 else None
    show(VersionPage(versions=versions, next=None), [*lines, *_chain_lines(versions[0])], as_json, note)


def _chain_lines(entry: EntryView) -> list[str]:
    """Return what the entry supersedes and resolves, and what supersedes or resolves it."""
    named = {name: entry.attributes.get(name) for name in ("supersedes", "resolves")}
    named[f"{entry.superseded or 'superseded'} by"] = entry.superseded_by
    return columns([(name, ", ".join(ids)) for name, ids in named.items() if ids])


def diff_lines(versions: list[EntryView]) -> list[str]:
    """Return what each version changed in attributes and content, newest first; only name the oldest."""
    lines: list[str] = []
    for newer, older in pairwise(versions):
        changes = unified_diff(_text(older), _text(newer), _name(older), _name(newer), lineterm="")
        lines += [
            paint(line, style) if (style := _COLOURS.get(line[:1])) else line
            for line in map(printable, changes)
        ] or [f"{_name(newer)}: nothing changed"]
        lines.append("")
    oldest = versions[-1]
    return [*lines, f"{_name(oldest)}  {oldest.updated}  the first one kept"]


def _name(version: EntryView) -> str:
    return f"version {version.version}"


def _text(version: EntryView) -> list[str]:
    attributes = [f"{name}: {value}" for name, value in shown_attributes(version.attributes).items()]
    return [*attributes, "", *version.content.splitlines()]
