"""`agentctx revoke` and `release`: quarantine the entries of a source, and release entries."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx.cli.connection import connect, entry_id_of
from agentctx.cli.consent import require_consent
from agentctx.cli.options import (
    AsJson,
    DryRun,
    EntryName,
    KeyNamespace,
    OnlyNamespace,
    Since,
    Until,
    Yes,
    refuse_blank,
    with_options,
)
from agentctx.cli.output import show
from agentctx.client.options import RevokeOptions
from agentctx.wire import Origin, ReleaseReply, RevokeReply, Trust
from agentctx.wire.wording import held_by_backups

TIMEOUT_S = 120.0


def source_options(
    *,
    agent: Annotated[str | None, typer.Option(help="Entries saved by this agent.")] = None,
    session: Annotated[str | None, typer.Option(help="Entries of this session.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Entries from this file or URL, or from below this folder.")
    ] = None,
    origin: Annotated[Origin | None, typer.Option(help="Entries of this origin.")] = None,
    trust: Annotated[Trust | None, typer.Option(help="Entries with this trust.")] = None,
    principal: Annotated[
        int | None, typer.Option("--uid", help="Entries saved by this user, as reported by the kernel.")
    ] = None,
    namespace: OnlyNamespace = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Declare the options that name a source, with the names from `RevokeOptions`."""


@with_options(source_options)
def revoke(
    ctx: typer.Context,
    *,
    options: RevokeOptions,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Erase the entries permanently. Without it, they are hidden and can be restored."
        ),
    ] = False,
    undo: Annotated[int | None, typer.Option(metavar="NUMBER", help="Undo this revocation instead.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove a source from every answer at once, together with everything derived from its entries.

    Entries must match all criteria. Later saves from the same source are not affected.
    """
    refuse_blank(**options)
    names_a_source = any(value is not None for value in options.values())
    if undo is not None:
        if names_a_source or forget:
            raise typer.BadParameter(
                "undoes a whole revocation and takes no other option", param_hint="--undo"
            )
        with connect(ctx, timeout_s=TIMEOUT_S) as client:
            released = client.undo_revocation(undo)
        others = [f"agentctx revoke --undo {other} undoes that one" for other in released.revocations]
        show(released, [undone(released)], as_json, *others)
        return
    if not names_a_source:
        raise typer.BadParameter(
            "this would revoke everything: give an agent, a session or another criterion"
        )
    trial: RevokeOptions = {**options, "forget": forget, "dry_run": True}
    request: RevokeOptions = {**trial, "dry_run": False}
    with connect(ctx, timeout_s=TIMEOUT_S) as client:
        if dry_run or not yes:
            reply = client.revoke(**trial)
        if not (dry_run or yes):
            require_consent(_question(reply), yes=False)
        if not dry_run:
            reply = client.revoke(**request)
    can_undo = reply.revocation is not None and not reply.forget
    hint = f"agentctx revoke --undo {reply.revocation} undoes it" if can_undo else None
    show(reply, [outcome(reply)], as_json, hint, held_by_backups(reply.backups, reply.backups_until))


def _question(trial: RevokeReply) -> str:
    verb = "Erase permanently" if trial.forget else "Revoke"
    return f"{verb} {trial.entries:,} entries of the source and {trial.derived:,} derived from them?"


def release(
    ctx: typer.Context, entry: EntryName, namespace: KeyNamespace = None, as_json: AsJson = False
) -> None:
    """Release an entry from quarantine, so that answers may contain it again."""
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, namespace)
        reply = client.release(entry_id)
    show(reply, [f"released  {entry_id}"], as_json)


def outcome(reply: RevokeReply) -> str:
    """Return one line about a revocation."""
    verb = "forgotten" if reply.forget else "revoked"
    counts = f"{reply.entries:,} of the source  {reply.derived:,} derived from them"
    before = f"  {reply.held_before:,} of them already hidden" if reply.held_before else ""
    return f"{'would be ' if reply.dry_run else ''}{verb}  {counts}{before}"


def undone(reply: ReleaseReply) -> str:
    """Return one line about a revocation that was undone."""
    released = f"released  {reply.released:,}"
    if not reply.still_quarantined:
        return released
    others = ", ".join(f"revocation {other}" for other in reply.revocations)
    reason = f"by {others}" if others else "since they were flagged"
    return f"{released}  {reply.still_quarantined:,} stay in quarantine, {reason}"
