"""Disk space reserved for deleting entries when the disk is full.

Forgetting needs space first: the wiped pages go to the WAL, which can only be emptied afterwards. So a file
reserves some, which is given up in steps if there is no other, and refilled once there is. Until then nothing
is saved, because saves would take the space that the next forget needs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from agentctx.errors import StorageFull
from agentctx.storage.file.commit import FailedWrite, Outcome, WriteFunction, commit_group
from agentctx.storage.file.driver import Connection

log = structlog.get_logger("agentctx.sqlite")

RESERVE_NAME: Final = "agentctx.reserve"
STEP_BYTES: Final = 4 * 1024 * 1024
"""The largest entry takes 2.6 MiB of WAL to forget, one of a few hundred words half a MiB."""
MARGIN_BYTES: Final = 1024 * 1024
"""Left free when the file is filled, because SQLite needs some space to open the database."""


@dataclass(frozen=True, slots=True)
class ReserveState:
    """The size of the reserve and its intended size, in bytes."""

    kept: int | None
    """None if the file was never created, because there was no room for it yet or it is not ours."""
    wanted: int
    is_foreign: bool = False
    """Whether a link, a folder or another kind of file is in its place; it is left alone."""

    @property
    def is_whole(self) -> bool:
        return (self.kept or 0) >= self.wanted

    @property
    def is_spent(self) -> bool:
        """Whether some of the reserve was given up, so that nothing may be saved."""
        return self.kept is not None and not self.is_whole


def has_room(state: ReserveState, free: int) -> bool:
    """Return whether `free` bytes of the disk suffice to fill the reserve."""
    return free >= state.wanted - (state.kept or 0) + MARGIN_BYTES


class Reserve:
    """A reserve file of `wanted` bytes; 0 for none. All methods block, and may be called from any thread."""

    def __init__(self, folder: Path, wanted: int) -> None:
        self._path = folder / RESERVE_NAME
        self._wanted = wanted
        self._one_at_a_time = threading.Lock()
        self._is_in_force = False

    def state(self) -> ReserveState:
        try:
            status = self._path.lstat()
        except OSError:
            return ReserveState(None, self._wanted)
        # Through a link, another file would be counted as the reserve, and truncated.
        is_ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return ReserveState(status.st_size if is_ours else None, self._wanted, is_foreign=not is_ours)

    def fill(self) -> bool:
        """Grow the file to its intended size if there is room; return whether it has this size."""
        self._is_in_force = True
        with self._one_at_a_time:
            return self._fill()

    def refuses_saves(self) -> bool:
        """Return whether some of the reserve is spent and there is no room to refill it.

        Always False before the first `fill`, because starting also has to write a little.
        """
        return self._is_in_force and self.state().is_spent and not self.fill()

    def _fill(self) -> bool:
        before = self.state()
        if before.is_foreign:
            return not self._wanted
        if not self._wanted:
            self._path.unlink(missing_ok=True)
        if before.is_whole:
            return True
        try:
            if not has_room(before, shutil.disk_usage(self._path.parent).free):
                return False
            self._allocate(before.kept or 0)
        except OSError as error:
            log.debug("reserve_not_made", reason=error.strerror)
            return False
        if before.is_spent:
            log.info("reserve_filled", bytes=self._wanted)
        return True

    def give_up(self) -> bool:
        """Give a step of the reserve back to the disk; return False if nothing is left."""
        with self._one_at_a_time:
            return self._give_up()

    def _give_up(self) -> bool:
        kept = self.state().kept
        if not kept:
            return False
        left = max(0, kept - STEP_BYTES)
        try:
            os.truncate(self._path, left)
        except OSError as error:
            log.warning("reserve_not_given_up", reason=error.strerror)
            return False
        log.warning("reserve_given_up", reason="the disk is full", bytes=kept - left, left=left)
        return True

    def give_up_if_full(self) -> bool:
        """Give up a step if the disk has no room even to open the database."""
        with contextlib.suppress(OSError):
            if shutil.disk_usage(self._path.parent).free < MARGIN_BYTES:
                return self.give_up()
        return False

    def _allocate(self, before: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._wanted)
        except OSError:
            self._reclaim(descriptor, before)
            raise
        finally:
            os.close(descriptor)

    def _reclaim(self, descriptor: int, before: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
            if not before:
                self._path.unlink()


@dataclass(frozen=True, slots=True)
class Write:
    """One member of a commit."""

    function: WriteFunction[Any]
    uses_reserve: bool = False
    """Whether the function deletes something and may spend the reserve."""


def commit_within(
    reserve: Reserve, connection: Connection, group: Sequence[Write]
) -> tuple[list[Outcome], int]:
    """Run `commit_group` with the reserve; while it is partly spent, only writes that may use it."""
    is_spent = reserve.refuses_saves()
    taken = [number for number, write in enumerate(group) if write.uses_reserve]
    if not (is_spent or taken):
        return commit_group(connection, [write.function for write in group])
    if not is_spent:
        taken = list(range(len(group)))
    outcomes: list[Outcome] = [FailedWrite(_reserved_for_removals()) for _ in group]
    commits = 0
    while taken:
        found, more = commit_group(connection, [group[number].function for number in taken])
        commits += more
        for number, outcome in zip(taken, found, strict=True):
            outcomes[number] = outcome
        taken = [number for number in taken if group[number].uses_reserve and _is_full(outcomes[number])]
        if taken and not reserve.give_up():
            break
    return outcomes, commits


def _is_full(outcome: Outcome) -> bool:
    return isinstance(outcome, FailedWrite) and isinstance(outcome.error, StorageFull)


def _reserved_for_removals() -> StorageFull:
    return StorageFull(
        "No space left for the database; the reserve is kept for forgetting.",
        hint="Free disk space; saving resumes automatically. Forgetting still works.",
    )
