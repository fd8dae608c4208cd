"""`agentctx audit …`: what was done, by whom, and whether that record is intact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from agentctx.cli.connection import connect
from agentctx.cli.layout import GAP, columns, one_line, truncate, width
from agentctx.cli.options import AsJson
from agentctx.cli.output import line_width, paint, show, table
from agentctx.names import readable
from agentctx.wire import AuditEvent, AuditVerdict

_INDENT = "    "
app = typer.Typer(
    no_args_is_help=True, help="Inspect the audit trail: who saved, read, forgot and changed what."
)


@app.command("list")
def list_events(
    ctx: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="Maximum number of rows.")
    ] = 50,
    before: Annotated[int | None, typer.Option(help="Only rows before this number.", min=1)] = None,
    kind: Annotated[str | None, typer.Option(help="Only rows of this kind, such as save or forget.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only rows about this id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the rows of the audit trail, newest first."""
    with connect(ctx) as client:
        page = client.audit(limit=limit, before=before, kind=kind, subject=subject)
    more = None if page.next is None else f"more: agentctx audit list --before {page.next}"
    show(page, event_lines(page.events, line_width()), as_json, more)


@app.command()
def verify(
    ctx: typer.Context,
    database: Annotated[
        Path | None,
        typer.Option(help="A database or backup to verify, opened read-only; the daemon need not run."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the hash chain of the audit trail: no row was changed and none is missing."""
    if database is None:
        with connect(ctx) as client:
            verdict = client.verify_audit()
    else:
        from agentctx.service.views import audit_verdict
        from agentctx.storage.opening import offline_storage

        verdict = audit_verdict(offline_storage().verify_audit(database))
    show(verdict, verdict_lines(verdict), as_json)
    if not verdict.sound:
        raise typer.Exit(1)


def event_lines(events: list[AuditEvent], limit: int | None) -> list[str]:
    """Return one line for each row: number, time, kind, uid, namespace, subject and detail; or two lines, the
    second with subject and detail, if one is too wide.
    """
    header = ("ROW", "TIME", "KIND", "UID", "NAMESPACE")
    rows = [
        (
            str(each.seq),
            each.at,
            one_line(each.kind, None),
            "daemon" if each.principal is None else str(each.principal),
            one_line(readable(each.namespace or "-"), None),
        )
        for each in events
    ]
    about = [(one_line(each.subject or "-", None), one_line(_summary(each.detail), None)) for each in events]
    wide = [(*header, "SUBJECT", "DETAIL"), *(row + rest for row, rest in zip(rows, about, strict=True))]
    if limit is None or max(map(width, columns(wide))) <= limit:
        return table(wide[0], wide[1:], None, right={0})
    head, *lines = table(header, rows, limit, right={0})
    below = [truncate((_INDENT + GAP.join(each)).rstrip(), limit) for each in about]
    return [head, *(line for pair in zip(lines, below, strict=True) for line in pair)]


def verdict_lines(verdict: AuditVerdict) -> list[str]:
    """Return the verdict, followed by the listed faults."""
    if verdict.sound:
        return [f"ok  {verdict.rows} rows"]
    lines = [paint(f"damaged  {verdict.faults} of the checks of {verdict.rows} rows failed", "red")]
    for fault in verdict.listed:
        where = "chain" if fault.seq is None else f"row {fault.seq}"
        lines.append(f"    {where}: {one_line(fault.problem, None)}")
    if (more := verdict.faults - len(verdict.listed)) > 0:
        lines.append(f"    and {more} more")
    return lines


def _summary(detail: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for name, value in detail.items()
    )
