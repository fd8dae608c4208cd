from __future__ import annotations

import pytest

from agentctx.ingest.known import KnownFile, Labels, StoredPart
from agentctx.ingest.unread import (
    EMPTY_FOLDER,
    NOT_MOUNTED,
    MissingPolicy,
    NearestFolder,
    UnreadCause,
    UnreadFile,
    recorded_folders,
    why_unseen,
)
from agentctx.ingest.walk import FoundFile
from agentctx.wire import FileSight

ROOT, DISK, OTHER = 1, 2, 3


def known(source: str, folder: tuple[int, int] | None) -> KnownFile:
    return KnownFile(source, {1: StoredPart(source, "d", 1, 2, 1, Labels(), folder)})


def found(source: str, folder: tuple[int, int]) -> FoundFile:
    return FoundFile(source, 1, 2, folder=folder)


CASES = {
    "deleted": ((DISK, 7), NearestFolder("/d", (DISK, 7), False, 0), {}, None),
    "the last one deleted": ((DISK, 7), NearestFolder("/d", (DISK, 7), True, 0), {}, None),
    "deleted with its folder": ((DISK, 7), NearestFolder("/", (DISK, 1), False, 0), {}, None),
    "an empty mount point": ((DISK, 7), NearestFolder("/d", (ROOT, 9), True, 0), {}, NOT_MOUNTED),
    "a mount point with something in it": (
        (DISK, 7),
        NearestFolder("/d", (ROOT, 9), False, 0),
        {},
        NOT_MOUNTED,
    ),
    "another disk": ((DISK, 7), NearestFolder("/d", (OTHER, 7), False, 0), {}, NOT_MOUNTED),
    "a bind mount of the same disk": ((DISK, 7), NearestFolder("/d", (DISK, 9), True, 0), {}, EMPTY_FOLDER),
    "a folder that git made again": ((DISK, 7), NearestFolder("/d", (DISK, 9), False, 0), {}, None),
    "the disk has another number now": (
        (DISK, 7),
        NearestFolder("/d", (OTHER, 7), False, 0),
        {DISK: OTHER},
        None,
    ),
    "its old number is that of another disk": (
        (DISK, 7),
        NearestFolder("/d", (DISK, 9), False, 0),
        {OTHER: DISK},
        NOT_MOUNTED,
    ),
    "nothing recorded, an empty folder": (None, NearestFolder("/d", (ROOT, 9), True, 0), {}, EMPTY_FOLDER),
    "nothing recorded": (None, NearestFolder("/d", (ROOT, 9), False, 0), {}, None),
}


def test_a_disk_that_is_not_mounted_is_told_from_a_deletion() -> None:
    wrong = {}
    for name, (was, nearest, renumbered, reason) in CASES.items():
        file = known("/d/gone", was)
        others = [known(f"/e/{each}", (each, 1)) for each in renumbered]
        seen = {f"/e/{each}": found(f"/e/{each}", (now, 1)) for each, now in renumbered.items()}
        said = why_unseen(file, nearest, recorded_folders([file, *others], seen))
        if said != reason:
            wrong[name] = said
    assert wrong == {}


@pytest.mark.parametrize(
    ("cause", "withdrawing", "keeping", "is_removable"),
    [
        (UnreadCause.UNSEEN, "stale", "stale", False),
        (UnreadCause.UNUSABLE, "withdrawn", "stale", False),
        (UnreadCause.GONE, "withdrawn", "stale", True),
        (UnreadCause.EXCLUDED, "withdrawn", "stale", True),
    ],
)
def test_what_becomes_of_the_entries(
    cause: UnreadCause, withdrawing: FileSight, keeping: FileSight, is_removable: bool
) -> None:
    file = UnreadFile("/a", cause, "why", ("1",), known("/a", None))
    assert file.state(MissingPolicy.WITHDRAW) == withdrawing
    assert file.state(MissingPolicy.KEEP) == keeping
    assert file.is_removed(MissingPolicy.REMOVE) is is_removable
    assert not file.is_removed(MissingPolicy.WITHDRAW)
    assert not file.is_removed(MissingPolicy.KEEP)
