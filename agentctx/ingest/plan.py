"""Plans a pass by comparing the files found with the files known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from agentctx.ingest.known import KnownFile, Labels
from agentctx.ingest.names import MAX_SOURCE_CHARS, escape_path
from agentctx.ingest.unread import (
    GONE,
    NearestFolder,
    RecordedFolders,
    UnreadCause,
    UnreadFile,
    recorded_folders,
    why_unseen,
)
from agentctx.ingest.walk import TOO_LONG, ExcludedPath, FoundFile, UnreadablePath, WalkItem

ItemT = TypeVar("ItemT")


class FileVerdict(StrEnum):
    """How a file's bytes compare with its entries."""

    NEW = "new"
    CHANGED = "changed"
    TOUCHED = "touched"
    """The text is the same; only the file record or the labels differ."""


@dataclass(frozen=True, slots=True)
class FileCandidate:
    """A file to be read, and what is known about it."""

    file: FoundFile
    source: str
    known: KnownFile | None


@dataclass(slots=True)
class IngestPlan:
    """The plan of one pass, made before any file is read or sent."""

    candidates: list[FileCandidate] = field(default_factory=list)
    unchanged: list[KnownFile] = field(default_factory=list)
    excluded: list[ExcludedPath] = field(default_factory=list)
    unreadable: list[UnreadablePath] = field(default_factory=list)
    absent: list[KnownFile] = field(default_factory=list)
    """Known files that are not there; `judge` says what that means."""
    unread: list[UnreadFile] = field(default_factory=list)
    """Known files that are excluded, or cannot be read."""
    recorded_folders: RecordedFolders = field(default_factory=RecordedFolders)


def make_plan(
    seen: Iterable[WalkItem], known: Mapping[str, KnownFile], labels: Labels, *, rereads: bool = False
) -> IngestPlan:
    """Sort the files seen into a plan. With `rereads`, files that look unchanged are read, too."""
    plan = IngestPlan()
    files, excluded, unreadable = _by_kind(seen)
    for source, file in files.items():
        entries = known.get(source)
        if entries and not rereads and _is_unchanged(file, entries, labels):
            plan.unchanged.append(entries)
        else:
            plan.candidates.append(FileCandidate(file, source, entries))
    # Arguments may overlap: a file that one of them includes is not excluded.
    plan.excluded = [each for source, each in excluded.items() if source not in files]
    plan.unreadable = list(unreadable.values())
    plan.recorded_folders = recorded_folders(known.values(), files)
    for source, entries in known.items():
        if source in files:
            continue
        if unreadable_path := _nearest(source, unreadable):
            plan.unread.append(unread_file(entries, UnreadCause.UNSEEN, unreadable_path.problem))
        elif excluded_path := _nearest(source, excluded):
            plan.unread.append(unread_file(entries, UnreadCause.EXCLUDED, excluded_path.reason))
        else:
            plan.absent.append(entries)
    return plan


def judge(
    file: KnownFile, nearest: NearestFolder | None, facts: RecordedFolders, *, fresh_since: int
) -> UnreadFile:
    """Return what it means that a known file is not there.

    `nearest` is None if no folder above it can be seen. A folder changed after `fresh_since`
    (nanoseconds) may be in the middle of an editor's save.
    """
    if nearest is None:
        return unread_file(file, UnreadCause.UNSEEN, "its folder cannot be seen")
    if reason := why_unseen(file, nearest, facts):
        return unread_file(file, UnreadCause.UNSEEN, reason)
    # Of an empty folder of which nothing was recorded, it is not sure that nothing was mounted there.
    cause = (
        UnreadCause.UNUSABLE if nearest.is_empty and nearest.source not in facts.folders else UnreadCause.GONE
    )
    return unread_file(file, cause, GONE, is_fresh=nearest.modified > fresh_since)


def _by_kind(
    seen: Iterable[WalkItem],
) -> tuple[dict[str, FoundFile], dict[str, ExcludedPath], dict[str, UnreadablePath]]:
    files: dict[str, FoundFile] = {}
    excluded: dict[str, ExcludedPath] = {}
    unreadable: dict[str, UnreadablePath] = {}
    for item in seen:
        source = escape_path(item.path)
        if isinstance(item, FoundFile) and len(source) > MAX_SOURCE_CHARS:
            excluded[source] = ExcludedPath(item.path, TOO_LONG)
        elif isinstance(item, FoundFile):
            files[source] = item
        elif isinstance(item, ExcludedPath):
            excluded[source] = item
        else:
            unreadable[source] = item
    return files, excluded, unreadable


def verdict_on(digest: str, known: KnownFile | None) -> FileVerdict:
    """Return how a file that had to be read compares with its entries."""
    if known is None:
        return FileVerdict.NEW
    return FileVerdict.TOUCHED if known.is_whole and known.first.digest == digest else FileVerdict.CHANGED


def labels_for(requested: Labels, known: KnownFile | None) -> Labels:
    """Return the file's labels: each requested label if given, else the one it already has."""
    held = known.first.labels if known else Labels()
    return Labels(
        tags=held.tags if requested.tags is None else requested.tags,
        category=held.category if requested.category is None else requested.category,
        agent=held.agent if requested.agent is None else requested.agent,
    )


def unread_file(known: KnownFile, cause: UnreadCause, reason: str, *, is_fresh: bool = False) -> UnreadFile:
    return UnreadFile(
        known.source, cause, reason, tuple(known.ids), known, is_fresh and not known.is_withdrawn
    )


def _is_unchanged(file: FoundFile, known: KnownFile, labels: Labels) -> bool:
    return (
        known.is_whole
        and (known.first.size, known.first.modified) == (file.size, file.modified)
        and labels_for(labels, known) == known.first.labels
    )


def _nearest(source: str, items: Mapping[str, ItemT]) -> ItemT | None:
    """Return what was seen at the path or the nearest folder above it, if anything was."""
    if not items:
        return None
    return next((items[path] for path in _with_ancestors(source) if path in items), None)


def _with_ancestors(source: str) -> Iterable[str]:
    yield source
    while (cut := source.rfind("/")) > 0:
        source = source[:cut]
        yield source
    yield "/"
