"""What an ingest did, for people."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentctx.cli.ingest_estimate import estimate_rows
from agentctx.cli.layout import columns, file_size, printable
from agentctx.cli.output import note, paint

if TYPE_CHECKING:
    from agentctx.ingest.report import Report

_MOST_COMPLAINTS = 20


def summary_lines(report: Report) -> list[str]:
    """One aligned line for each way files came out, with the reasons for what was skipped."""
    details = {
        "skipped": _reasons(each.reason for each in report.skipped),
        "missing": _reasons(each.reason for each in report.missing),
        "removed": _reasons(each.reason for each in report.removed),
        "touched": "the text is the same",
    }
    rows = [(name, str(count), details.get(name, "")) for name, count in report.counts().items() if count]
    if report.entries:
        rows.append(("entries", str(report.entries), file_size(report.bytes)))
    if report.pending is not None:
        rows.append(("pending", str(report.pending), f"{report.buried} buried" if report.buried else ""))
    if report.estimate:
        rows += estimate_rows(report.estimate)
    return columns(rows, right={1}) if rows else ["nothing to do"]


def change_lines(report: Report, *, with_skipped: bool = True) -> list[str]:
    """One line for each file: what happened to it, or would."""
    rows = [(verdict.value, source, "") for verdict, sources in report.saved.items() for source in sources]
    rows += [("removed", each.source, each.reason) for each in report.removed]
    rows += [("missing", each.source, each.reason) for each in report.missing]
    if with_skipped:
        rows += [("skipped", each.path, each.reason) for each in report.skipped]
    width = len("unchanged")
    return [
        f"{paint(verdict.ljust(width), 'dim')}  {printable(source)}{f'  ({reason})' if reason else ''}"
        for verdict, source, reason in rows
    ]


def note_all(report: Report, *, is_removal_left: bool) -> None:
    """Say on stderr what failed, and how what was skipped could be taken."""
    for failed in report.failed[:_MOST_COMPLAINTS]:
        print(printable(f"failed: {failed.path}: {failed.problem}"), file=sys.stderr)
    if len(report.failed) > _MOST_COMPLAINTS:
        note(f"and {len(report.failed) - _MOST_COMPLAINTS} more failed; --json lists them all")
    hints = Counter(skipped.hint for skipped in report.skipped if skipped.hint)
    hints += Counter(failed.hint for failed in report.failed if failed.hint)
    for hint, count in hints.most_common():
        note(f"{count} {'file' if count == 1 else 'files'}: {hint}")
    for remark in report.remarks[:_MOST_COMPLAINTS]:
        note(f"{remark.path}: {remark.remark}")
    if report.missing and is_removal_left:
        note(f"{len(report.missing)} missing files are still known; --remove-missing forgets them")


def _reasons(reasons: Iterator[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())
