"""Sends entries to import to the daemon in batches, and counts what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from agentctx.cli.output import print_error, print_note
from agentctx.errors import AccessDenied, AgentctxError, Expired, Forgotten, InvalidInput
from agentctx.wire import ImportTrust

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import ImportEntry

BATCH_CHARS = 200_000
"""Most characters in a request; the daemon accepts 1 MiB, and a character may take four bytes."""
BATCH_VERSIONS = 200
_MAX_COMPLAINTS = 20
_MAX_REASONS = 100


@dataclass(slots=True)
class ImportReport:
    """Counts: `entries` read, `imported`, `unchanged` because they were already there, and `failed`.

    `quarantined` are those that are in quarantine, as where they were exported.
    `forgotten` are entries that were skipped because they were forgotten here, `expired` because
    their time is over.
    """

    dry_run: bool
    include_forgotten: bool = False
    trust: ImportTrust = "external"
    review: bool = False
    entries: int = 0
    imported: int = 0
    unchanged: int = 0
    forgotten: int = 0
    expired: int = 0
    quarantined: int = 0
    failed: int = 0
    redacted: dict[str, int] = field(default_factory=dict)
    collections: dict[str, int] = field(default_factory=dict)
    """Of those imported, how many are in each collection."""
    duplicates: int = 0
    """Those that another program's memory has more than once; the first one counts."""
    lowered: int = 0
    """Those that would have more trust if the caller were an admin."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why entries failed."""


class ImportLine(NamedTuple):
    """All versions of an entry, oldest first, where they stand, and the trust that they get."""

    where: str
    versions: list[ImportEntry]
    trust: ImportTrust


def report_lines(report: ImportReport) -> Iterator[str]:
    """Yield the totals, then those by collection if there are several, and by reason if many failed."""
    yield _counts(report)
    if len(report.collections) > 1:
        yield "  ".join(f"{name} {count:,}" for name, count in sorted(report.collections.items()))
    if report.failed > _MAX_COMPLAINTS:
        yield from (f"failed {count:,}: {reason}" for reason, count in sorted(report.reasons.items()))


def _counts(report: ImportReport) -> str:
    parts = {
        "would import" if report.dry_run else "imported": report.imported,
        "already there": report.unchanged,
        "duplicates": report.duplicates,
        "with less trust, which only admins may raise": report.lowered,
        "in no answer until `agentctx review`" if report.review else "in quarantine": report.quarantined,
        "skipped as forgotten": report.forgotten,
        "skipped as expired": report.expired,
        "failed": report.failed,
    }
    shown = [f"{name} {count:,}" for number, (name, count) in enumerate(parts.items()) if count or number < 2]
    if report.redacted:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.redacted.items()))
        shown.append(f"redacted {kinds}")
    return "  ".join(shown)


def batches(lines: Iterable[ImportLine]) -> Iterator[list[ImportLine]]:
    """Yield batches of lines, one for each request, which has one trust. All versions stay together."""
    by_trust: dict[ImportTrust, list[ImportLine]] = {}
    for line in lines:
        batch = by_trust.setdefault(line.trust, [])
        if batch and not _fits(line, batch):
            yield batch
            batch = by_trust[line.trust] = []
        batch.append(line)
    yield from by_trust.values()


def _fits(line: ImportLine, batch: list[ImportLine]) -> bool:
    versions = [version for each in (*batch, line) for version in each.versions]
    return len(versions) <= BATCH_VERSIONS and sum(len(each.content) for each in versions) <= BATCH_CHARS


def send(client: Client, batch: list[ImportLine], report: ImportReport) -> None:
    """Import a batch; if the daemon refuses the whole request, send each line, then each version, alone."""
    versions = [version for line in batch for version in line.versions]
    how: dict[str, Any] = {
        "dry_run": report.dry_run,
        "include_forgotten": report.include_forgotten,
        "review": report.review,
    }
    ask: Callable[..., Sequence[object]] = partial(client.import_entries, **how, trust=batch[0].trust)
    try:
        outcomes = ask(versions)
    except InvalidInput as error:
        if len(batch) > 1:
            for line in batch:
                send(client, [line], report)
        elif len(versions) > 1:
            _note(report, batch[0], list(_import_alone(ask, versions)))
        else:
            fail(report, batch[0].where, error)
        return
    except AccessDenied:
        if batch[0].trust == report.trust:
            raise
        report.lowered += len(batch)
        send(client, [line._replace(trust=report.trust) for line in batch], report)
        return
    arrived = iter(outcomes)
    for line in batch:
        _note(report, line, [next(arrived) for _ in line.versions])


def _import_alone(ask: Callable[..., Sequence[object]], versions: list[ImportEntry]) -> Iterator[object]:
    for version in versions:
        try:
            # The last version of a request sets the expiry, and alone each is the last.
            yield from ask([replace(version, expires=versions[-1].expires)])
        except InvalidInput as error:
            yield error


def _note(report: ImportReport, line: ImportLine, outcomes: list[object]) -> None:
    errors = [outcome for outcome in outcomes if isinstance(outcome, AgentctxError)]
    if errors and all(isinstance(error, Forgotten) for error in errors):
        report.forgotten += 1
        return
    if errors and all(isinstance(error, Expired) for error in errors):
        report.expired += 1
        return
    if errors:
        fail(report, line.where, errors[0])
        return
    report.redacted = dict(
        Counter(report.redacted)
        + Counter(kind for each in outcomes for kind in getattr(each, "redacted", ()))
    )
    report.quarantined += getattr(outcomes[-1], "quarantined", False)
    if any(getattr(outcome, "changed", False) for outcome in outcomes):
        report.imported += 1
        collection = line.versions[-1].collection
        report.collections[collection] = report.collections.get(collection, 0) + 1
    else:
        report.unchanged += 1


def fail(report: ImportReport, where: str, error: AgentctxError) -> None:
    """Count an entry that cannot be imported; the first ones are named on stderr."""
    report.failed += 1
    reason = error.message if len(report.reasons) < _MAX_REASONS else "Other reasons."
    report.reasons[reason] = report.reasons.get(reason, 0) + 1
    if report.failed <= _MAX_COMPLAINTS:
        print_error(InvalidInput(f"{where}: {error.message}", hint=error.hint))
    elif report.failed == _MAX_COMPLAINTS + 1:
        print_note("more failed; they are only counted")
