"""`agentctx undo`: undo recent saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentctx.cli.connection import connect
from agentctx.cli.consent import require_consent
from agentctx.cli.export import PAGE, TIMEOUT_S, exported_entries
from agentctx.cli.layout import columns
from agentctx.cli.options import AsJson, DryRun, OnlyNamespace, Yes, name_zone, refuse_blank
from agentctx.cli.output import show
from agentctx.errors import KeyTaken, NotFound, VersionConflict
from agentctx.names import normalised
from agentctx.service.earlier_version import fields_to_restore
from agentctx.times import format_time, parse_time, wall_clock
from agentctx.wire import Origin
from agentctx.wire.wording import held_by_backups

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import ExportedEntry

Action = Literal["forget", "revert", "leave", "conflict"]
_TAKEN = "another learning has its earlier trigger, error and fix"
_NO_EDIT = "it differs from its earlier version only in ways that an edit cannot undo"

MAX_SHOWN = 50
"""Most steps listed for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one entry. `to_version` is the version that is restored."""

    action: Action
    id: str
    collection: str
    name: str
    version: int
    to_version: int | None = None
    why: str = ""
    backups: int = 0
    """Automatic backups that hold a forgotten entry."""
    backups_until: str | None = None


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What was undone, or would be; `conflicts` are entries that changed meanwhile and were left alone."""

    since: str
    done: bool
    forgotten: int
    reverted: int
    left: int
    conflicts: int
    steps: list[Step]


def undo(
    ctx: typer.Context,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", callback=name_zone, help="How far back: 10m, 2h, or 2026-11-21T08:00:00Z."
        ),
    ],
    session: Annotated[str | None, typer.Option(help="Only entries of this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only entries of this agent.")] = None,
    origin: Annotated[Origin | None, typer.Option(help="Only entries of this origin.")] = None,
    namespace: OnlyNamespace = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget entries created since a time, and restore the text and attributes that others had then.

    They are saved as a new version. Counts of learnings stay. Forgotten entries stay forgotten.
    """
    refuse_blank(session=session, agent=agent, namespace=namespace)
    moment = format_time(parse_time(since, now=wall_clock()))
    session, agent = session and normalised(session), agent and normalised(agent)
    with connect(ctx, timeout_s=TIMEOUT_S) as client:
        # Plan everything before the first change, or the export would list what was just undone as changed.
        planned = [
            (step, exported)
            for exported in exported_entries(client, {"since": moment, "history": True, "limit": PAGE})
            for entry in [exported.entry]
            if session in {None, entry.session}
            and agent in {None, entry.agent}
            and origin in {None, entry.origin}
            and namespace in {None, entry.namespace}
            for step in [decide(exported, moment)]
        ]
        if planned and not dry_run:
            require_consent(_question([step for step, _ in planned]), yes=yes)
        steps = [step if dry_run else _done(client, step, exported) for step, exported in planned]
    counts = Counter(step.action for step in steps)
    report = UndoReport(
        moment,
        done=not dry_run,
        forgotten=counts["forget"],
        reverted=counts["revert"],
        left=counts["leave"],
        conflicts=counts["conflict"],
        steps=steps,
    )
    would = "would be " if dry_run else ""
    summary = f"{would}forgotten {report.forgotten}  {would}reverted {report.reverted}  left {report.left}"
    show(report, [*columns(list(_rows(report))), summary], as_json, *notes(report))


def _question(steps: Sequence[Step]) -> str:
    forgotten = sum(step.action == "forget" for step in steps)
    reverted = sum(step.action == "revert" for step in steps)
    return f"Forget {forgotten:,} entries and revert {reverted:,}?"


def decide(exported: ExportedEntry, since: str) -> Step:
    """Return the step that undoes the changes of an entry since a time (RFC 3339, UTC)."""
    entry = exported.entry
    name = entry.key or " ".join(entry.content.split())[:40]
    step = partial(Step, id=entry.id, collection=entry.collection, name=name, version=entry.version)
    if entry.created >= since:
        return step(action="forget")
    kept = [*exported.versions, entry]
    before = [version.version for version in kept if version.updated < since]
    if not before or before[-1] + 1 not in {version.version for version in kept}:
        return step(action="leave", why="the version from that time has been pruned")
    return step(action="revert", to_version=before[-1])


def _done(client: Client, step: Step, exported: ExportedEntry) -> Step:
    try:
        if step.action == "forget":
            reply = client.forget(step.id, if_version=step.version)
            return replace(step, backups=reply.backups, backups_until=reply.backups_until)
        if step.action == "revert":
            earlier = next(each for each in exported.versions if each.version == step.to_version)
            changes = fields_to_restore(exported.entry, earlier, now=wall_clock())
            changes["if_version"] = step.version
            if not client.edit(step.id, **changes).changed:
                return replace(step, action="leave", to_version=None, why=_NO_EDIT)
    except KeyTaken:
        return replace(step, action="leave", to_version=None, why=_TAKEN)
    except (NotFound, VersionConflict):
        return replace(step, action="conflict", to_version=None, why="it changed meanwhile")
    return step


def notes(report: UndoReport) -> Iterator[str]:
    """Yield what the listed steps do not show."""
    if len(report.steps) > MAX_SHOWN:
        yield f"and {len(report.steps) - MAX_SHOWN:,} more; --json lists them all"
    holding = max(report.steps, key=lambda step: step.backups, default=None)
    if holding and (held := held_by_backups(holding.backups, holding.backups_until)):
        yield held
    if report.conflicts:
        yield f"{report.conflicts} changed meanwhile and were left alone; run it again"


def _rows(report: UndoReport) -> Iterator[tuple[str, ...]]:
    for step in report.steps[:MAX_SHOWN]:
        what = f"to version {step.to_version}" if step.to_version else step.why
        yield step.action, step.id, step.collection, step.name, what
