"""Plans a pass by comparing the files found with the files known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agentctx.ingest.known import KnownFile, Labels
from agentctx.ingest.names import MAX_SOURCE_CHARS, escape_path
from agentctx.ingest.walk import TOO_LONG, Excluded, Found, Unreadable, WalkItem

GONE = "gone"


class FileVerdict(StrEnum):
    """How a file's bytes compare with its entries."""

    NEW = "new"
    CHANGED = "changed"
    TOUCHED = "touched"
    """The text is the same; only the file record or the labels differ."""


@dataclass(frozen=True, slots=True)
class FileCandidate:
    """A file to be read, and what is known about it."""

    found: Found
    source: str
    known: KnownFile | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A known file whose entries should be removed, and the reason: it is gone, or is now excluded."""

    source: str
    reason: str
    ids: tuple[str, ...]


@dataclass(slots=True)
class IngestPlan:
    """The plan of one pass, made before any file is read or sent."""

    candidates: list[FileCandidate] = field(default_factory=list)
    unchanged: int = 0
    excluded: list[Excluded] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


def make_plan(seen: Iterable[WalkItem], known: Mapping[str, KnownFile], labels: Labels) -> IngestPlan:
    """Sort the files seen into a plan. Known files that were unreadable are neither unchanged nor missing."""
    plan = IngestPlan()
    found, excluded, unreadable = _by_kind(seen)
    for source, file in found.items():
        entries = known.get(source)
        if entries and _is_unchanged(file, entries, labels):
            plan.unchanged += 1
        else:
            plan.candidates.append(FileCandidate(file, source, entries))
    # Arguments may overlap: a file that one of them includes is not excluded.
    plan.excluded = [each for source, each in excluded.items() if source not in found]
    plan.unreadable = list(unreadable.values())
    plan.missing = [
        missing_file(entries, _reason(source, excluded))
        for source, entries in known.items()
        if source not in found and not _has_ancestor(source, unreadable)
    ]
    return plan


def _by_kind(seen: Iterable[WalkItem]) -> tuple[dict[str, Found], dict[str, Excluded], dict[str, Unreadable]]:
    found: dict[str, Found] = {}
    excluded: dict[str, Excluded] = {}
    unreadable: dict[str, Unreadable] = {}
    for each in seen:
        source = escape_path(each.path)
        if isinstance(each, Found) and len(source) > MAX_SOURCE_CHARS:
            excluded[source] = Excluded(each.path, TOO_LONG)
        elif isinstance(each, Found):
            found[source] = each
        elif isinstance(each, Excluded):
            excluded[source] = each
        else:
            unreadable[source] = each
    return found, excluded, unreadable


def verdict_on(digest: str, known: KnownFile | None) -> FileVerdict:
    """Return how a file that had to be read compares with its entries."""
    if known is None:
        return FileVerdict.NEW
    return FileVerdict.TOUCHED if known.is_whole and known.first.digest == digest else FileVerdict.CHANGED


def labels_for(wanted: Labels, known: KnownFile | None) -> Labels:
    """Return the file's labels: each wanted label if given, else the one it already has."""
    held = known.first.labels if known else Labels()
    return Labels(
        tags=held.tags if wanted.tags is None else wanted.tags,
        category=held.category if wanted.category is None else wanted.category,
        agent=held.agent if wanted.agent is None else wanted.agent,
    )


def missing_file(known: KnownFile, reason: str) -> Missing:
    return Missing(known.source, reason, tuple(known.ids))


def _is_unchanged(file: Found, known: KnownFile, labels: Labels) -> bool:
    return (
        known.is_whole
        and (known.first.size, known.first.modified) == (file.size, file.modified)
        and labels_for(labels, known) == known.first.labels
    )


def _reason(source: str, excluded: Mapping[str, Excluded]) -> str:
    for path in _with_ancestors(source):
        if path in excluded:
            return excluded[path].reason
    return GONE


def _has_ancestor(source: str, places: Mapping[str, object]) -> bool:
    return bool(places) and any(path in places for path in _with_ancestors(source))


def _with_ancestors(source: str) -> Iterable[str]:
    yield source
    while (cut := source.rfind("/")) > 0:
        source = source[:cut]
        yield source
    yield "/"
