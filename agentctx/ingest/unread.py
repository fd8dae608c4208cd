"""Decides what it means that a known file was not read: unseen, gone, or with something else in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from agentctx.ingest.known import KnownFile
from agentctx.ingest.walk import FolderIdentity, FoundFile
from agentctx.wire import FileSight

GONE = "gone"
CHANGING = "it is being changed"
NOT_MOUNTED = "its disk is not mounted"
EMPTY_FOLDER = "its folder is empty, as if a disk were not mounted"


class UnreadCause(StrEnum):
    """What was found where a known file should be."""

    UNSEEN = "unseen"
    """Nothing is known: it cannot be read, or its disk is not mounted."""
    GONE = "gone"
    EXCLUDED = "excluded"
    UNUSABLE = "unusable"
    """It is there, but is empty, binary, damaged, or does not decode."""


class MissingPolicy(StrEnum):
    """What to do with the entries of files that are gone or excluded."""

    WITHDRAW = "withdraw"
    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A known file that was not read, and why."""

    source: str
    cause: UnreadCause
    reason: str
    ids: tuple[str, ...]
    known: KnownFile
    is_fresh: bool = False
    """Whether it changed so recently that an editor may be saving it."""
    is_new: bool = True
    """Whether its entries do not have the state yet."""

    def state(self, policy: MissingPolicy) -> FileSight:
        """Return the state of its entries; those to be removed are withdrawn until they are."""
        is_kept = self.cause is UnreadCause.UNSEEN or policy is MissingPolicy.KEEP
        return "stale" if is_kept else "withdrawn"

    def is_removed(self, policy: MissingPolicy) -> bool:
        """Whether its entries are erased: only what is surely gone or excluded, and only on request."""
        return policy is MissingPolicy.REMOVE and self.cause in (UnreadCause.GONE, UnreadCause.EXCLUDED)


@dataclass(frozen=True, slots=True)
class NearestFolder:
    """The nearest existing folder above a file that is not there. `modified`: nanoseconds since the epoch."""

    source: str
    identity: FolderIdentity
    is_empty: bool
    modified: int


@dataclass(frozen=True, slots=True)
class RecordedFolders:
    """What the known files say about folders and devices, beside what is seen of them now."""

    devices: Mapping[int, AbstractSet[int]] = field(default_factory=dict)
    """Where the files of a recorded device are now: its number may change with a restart."""
    folders: Mapping[str, AbstractSet[int]] = field(default_factory=dict)
    """The recorded inodes of each folder."""


def recorded_folders(known: Iterable[KnownFile], files: Mapping[str, FoundFile]) -> RecordedFolders:
    """Collect what was recorded when the known files were read."""
    devices: dict[int, set[int]] = {}
    folders: dict[str, set[int]] = {}
    for file in known:
        if file.first.folder is None:
            continue
        device, inode = file.first.folder
        folders.setdefault(file.source.rpartition("/")[0] or "/", set()).add(inode)
        seen = files.get(file.source)
        if seen and seen.folder:
            devices.setdefault(device, set()).add(seen.folder[0])
    return RecordedFolders(devices, folders)


def why_unseen(file: KnownFile, nearest: NearestFolder, facts: RecordedFolders) -> str | None:
    """Return why a file that is not there may exist on a disk that is not mounted; None if it is gone."""
    was = file.first.folder
    if was is not None and not _is_same_device(was[0], nearest.identity[0], facts.devices):
        return NOT_MOUNTED
    inodes = facts.folders.get(nearest.source)
    is_another = nearest.identity[1] not in inodes if inodes else was is None
    return EMPTY_FOLDER if nearest.is_empty and is_another else None


def _is_same_device(was: int, now: int, devices: Mapping[int, AbstractSet[int]]) -> bool:
    if was in devices:
        return now in devices[was]
    is_taken = any(now in others for others in devices.values())
    return was == now and not is_taken
