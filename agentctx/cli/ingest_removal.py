"""Whether an ingest forgets the entries of files that are missing."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from agentctx.cli.layout import printable

if TYPE_CHECKING:
    from agentctx.ingest.report import Report


class Removal(StrEnum):
    """What to do with the entries of missing files."""

    ASK = "ask"
    REMOVE = "remove"
    KEEP = "keep"


RemoveMissing: TypeAlias = Annotated[
    bool, typer.Option("--remove-missing", help="Forget files that are gone or now excluded; do not ask.")
]
KeepMissing: TypeAlias = Annotated[
    bool, typer.Option("--keep-missing", help="Keep them; do not ask, not even with --watch.")
]


def chosen_removal(remove_missing: bool, keep_missing: bool, watch: bool) -> Removal:
    """Return what the options say; a watch removes unless it is to keep.

    Raises:
        BadParameter: the options contradict each other.
    """
    if remove_missing and keep_missing:
        raise typer.BadParameter("cannot be combined with --keep-missing", param_hint="--remove-missing")
    if keep_missing:
        return Removal.KEEP
    return Removal.REMOVE if remove_missing or watch else Removal.ASK


def confirm_removal(report: Report) -> bool:
    """Ask on a terminal whether to forget the missing files. Ctrl-C means no and interrupts the run."""
    from agentctx.ingest.run import summary_lines

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for line in summary_lines(report.missing):
        print(f"  {printable(line)}", file=sys.stderr)
    entries = sum(len(each.ids) for each in report.missing)
    try:
        return typer.confirm(f"Forget these {len(report.missing)} files ({entries} entries)?", err=True)
    except typer.Abort:
        print(file=sys.stderr)
        report.interrupted = True
        return False
