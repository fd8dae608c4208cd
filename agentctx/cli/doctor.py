"""`agentctx doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from textwrap import wrap
from typing import Annotated, TypeAlias

import typer

from agentctx.cli.layout import GAP, printable, width
from agentctx.cli.options import AsJson, ConfigFile, DataDir
from agentctx.cli.output import Style, line_width, logs_to_stderr, paint, show, writes_unicode
from agentctx.errors import InvalidInput
from agentctx.wire import CheckResult, CheckStatus, DoctorReply, DoctorSummary

EXIT_TROUBLE = 1
MIN_WIDTH = 30
"""Minimum width of a message in columns, however narrow the terminal."""

_SYMBOLS: dict[CheckStatus, tuple[str, str, Style]] = {
    "pass": ("✓", "ok", "green"),
    "warn": ("!", "!!", "yellow"),
    "fail": ("✗", "XX", "red"),
    "skip": ("-", "--", "dim"),
}
"""By status: the symbol, its ASCII form, and the colour."""

_TITLES = {
    "program": "Program",
    "config": "Configuration",
    "files": "Files",
    "socket": "Socket",
    "daemon": "Daemon",
    "connections": "Connected agents",
    "database": "Database",
    "running": "Running daemon",
    "backup": "Backups",
    "queue": "Queue",
    "embedding": "Embedding/RAG",
}
"""Headings of the groups."""

Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", metavar="ID", help="Only this check or group; repeat for more.")
]
Skip: TypeAlias = Annotated[
    list[str] | None, typer.Option("--skip", metavar="ID", help="Skip this check or group; repeat for more.")
]


def doctor(
    ctx: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired, and report it.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not call embedding providers outside the daemon.")
    ] = False,
    only: Only = None,
    skip: Skip = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check the whole installation, with the daemon up or down. Exits 1 if anything failed."""
    from agentctx.doctor.catalog import select

    try:
        ids = select(only or (), skip or ())
    except InvalidInput as error:
        raise typer.BadParameter(f"{error.message} {error.hint}") from None
    from agentctx.cli.checkup import Checkup, examine

    checkup = Checkup(config=config, data_dir=data_dir, socket=ctx.obj, ids=ids, fix=fix, offline=offline)
    with logs_to_stderr():
        reply = asyncio.run(examine(checkup))
    fixable = sum(check.fixable and check.status in {"warn", "fail"} for check in reply.checks)
    note = f"`agentctx doctor --fix` can repair {'one' if fixable == 1 else fixable} of these"
    lines = report_lines(reply, line_width(), unicode=writes_unicode())
    show(reply, lines, as_json, note if fixable and not fix else None)
    raise typer.Exit(exit_code(reply.summary, strict=strict))


def exit_code(summary: DoctorSummary, *, strict: bool) -> int:
    """Return 1 if a check failed or, with `strict`, if there is a warning; else 0."""
    return EXIT_TROUBLE if summary.failed or (strict and summary.warned) else 0


def report_lines(reply: DoctorReply, limit: int | None, *, unicode: bool = True) -> list[str]:
    """Return the report for people: a block for each group, then a summary line.

    `limit` is the width of the terminal in columns; None disables wrapping.
    """
    column = max((width(check.id) for check in reply.checks), default=0)
    lines: list[str] = []
    for title, checks in groupby(reply.checks, key=_title):
        lines += [paint(title, "bold")]
        for check in _collapsed(checks):
            lines += _check_lines(check, column, limit, unicode=unicode)
        lines += [""]
    return [*lines, _summary(reply.summary)]


def _collapsed(checks: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Yield the checks, with consecutive ones skipped for the same reason merged into one."""
    for (status, message), same in groupby(checks, key=lambda check: (check.status, check.message)):
        row = list(same)
        if status == "skip" and len(row) > 1:
            yield replace(row[0], id=f"{len(row)} checks", message=message)
        else:
            yield from row


def _title(check: CheckResult) -> str:
    return _TITLES.get(check.group, check.group)


def _check_lines(check: CheckResult, column: int, limit: int | None, *, unicode: bool) -> Iterator[str]:
    pretty, ascii_only, style = _SYMBOLS.get(check.status, _SYMBOLS["skip"])
    symbol = pretty if unicode else ascii_only
    indent = " " * (len(GAP) + len(symbol) + 1 + column + len(GAP))
    first, *rest = _wrapped(check.message, limit, len(indent))
    name = check.id + " " * (column - width(check.id))
    yield f"{GAP}{paint(symbol, style)} {name}{GAP}{first}"
    yield from (indent + line for line in rest)
    for text, tone in _notes(check):
        yield from (indent + paint(line, tone) for line in _wrapped(text, limit, len(indent)))


def _notes(check: CheckResult) -> Iterator[tuple[str, Style]]:
    """Yield the notes below the message: the fix, and for a warning or failure its detail and hint."""
    is_trouble = check.status in {"warn", "fail"}
    if check.fixed:
        yield f"fixed: {check.fixed}", "green"
    if is_trouble and check.detail:
        yield check.detail, "dim"
    if is_trouble and check.hint:
        yield check.hint, "cyan"


def _wrapped(text: str, limit: int | None, indent: int) -> Sequence[str]:
    line = printable(" ".join(text.split()))
    if limit is None:
        return [line]
    columns = max(MIN_WIDTH, limit - indent)
    return wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""]


def _summary(summary: DoctorSummary) -> str:
    counts: list[tuple[int, str, Style]] = [
        (summary.passed, "passed", "green"),
        (summary.warned, "warning" if summary.warned == 1 else "warnings", "yellow"),
        (summary.failed, "failed", "red"),
        (summary.skipped, "skipped", "dim"),
    ]
    return ", ".join(paint(f"{count} {name}", style) for count, name, style in counts if count)
