"""Copies of databases, even live ones: verified, and put in place as a whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from agentctx.errors import AgentctxError, StorageClosed, StorageFailed, StorageFull
from agentctx.storage.file.connection_thread import finish as finish_work
from agentctx.storage.file.driver import (
    Connection,
    Error,
    create_private,
    open_connection,
    open_copy_target,
    translated,
)

PAGES_PER_STEP: Final = 2_000
"""A copy can be stopped between two steps."""
PAGES_BETWEEN_COMMITS: Final = 128
"""A commit waits for at most one such step, which takes up to three milliseconds."""
COMMIT_S: Final = 0.002
"""How often a copy checks whether a transaction of its own connection has ended."""
OCTETS_PER_STEP: Final = 1024 * 1024
_STEPS_PER_LOOK: Final = 1_000
"""How many steps SQLite's own check runs between two checks whether to stop."""
_MAX_PROBLEMS: Final = 5
_FULL_ERRNOS: Final = frozenset({28, 122})
"""ENOSPC, EDQUOT."""

BUSY_S: Final = 0.002
"""CPU time after which a copy that runs beside other work rests."""
REST: Final = 3.0
"""Length of a rest, as a multiple of the work before it. On two cores, saves then keep 80 % of their rate."""


class CopyPace:
    """The pace of a copy: full speed, or with rests so that other work continues.

    Setting `stop` ends the copy at its next step.
    """

    def __init__(self, stop: threading.Event | None = None, *, rests: bool = False) -> None:
        self._stop = stop or threading.Event()
        self._rests = rests
        self._resumed = time.thread_time()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def step(self) -> None:
        """Rest between two pieces of work if necessary. Raises `StorageClosed` if the copy was stopped."""
        if self.is_stopped:
            raise StorageClosed("The copy was stopped.")
        if not self._rests:
            return
        worked_s = time.thread_time() - self._resumed
        if worked_s >= BUSY_S:
            self._stop.wait(REST * worked_s)
            self._resumed = time.thread_time()


Finish: TypeAlias = Callable[[Connection], None]
"""Changes a copy that is not in use yet."""


@dataclass(frozen=True, slots=True)
class VerifiedCopy:
    """A verified copy: its size in bytes, and the SHA-256 of the file."""

    bytes: int
    digest: str


def copy_pages(
    source: Connection, target: Path, *, pace: CopyPace | None = None, finish: Finish | None = None
) -> None:
    """Copy `source` into `TARGET.partial` (mode 0600), for `keep_copy`. Blocks.

    The thread of a `source` that is the only connection that writes may keep using it: SQLite adds its
    commits to the copy (https://sqlite.org/backup.html), which shows the database at the end of the copying;
    no snapshot is open, so the WAL need not keep later commits. With `finish`, the copy is then changed in
    one transaction and copied once more, without unused space. It is a plain SQLite file without a WAL. If
    anything fails, the file is removed; after a kill it stays until the next copy.

    Raises:
        StorageFull: there is no space for the copy.
        StorageFailed: the copy could not be written.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or CopyPace()
    with _replacement_file(target) as partial:
        with closing(open_copy_target(partial)) as copy:
            source.backup(copy, pages=PAGES_BETWEEN_COMMITS, progress=lambda *_: pace.step(), sleep=COMMIT_S)
            # A copy takes over the source's mode; a WAL beside a backup would only be in the way.
            copy.execute("PRAGMA journal_mode=DELETE")
            if finish is not None:
                copy.execute("BEGIN")
                finish(copy)
                copy.execute("COMMIT")
                copy_without_gaps(copy, _compact_of(partial), pace)
        if finish is not None:
            _compact_of(partial).replace(partial)


def copy_without_gaps(source: Connection, target: Path, pace: CopyPace) -> None:
    """Copy the rows of a database into a new file (mode 0600), which has no unused space. Blocks.

    A snapshot is open meanwhile. The copy is a plain SQLite file without a WAL.

    Raises:
        Error: SQLite failed. What was written of the file stays.
        StorageFailed: the file cannot be created.
        StorageClosed: `pace` was stopped.
    """
    create_private(target)
    source.set_progress_handler(lambda: _rests_until_stopped(pace), _STEPS_PER_LOOK)
    try:
        source.execute("VACUUM INTO ?", (str(target),))
    except Error as error:
        if pace.is_stopped:
            raise StorageClosed("The copy was stopped.") from error
        raise
    finally:
        source.set_progress_handler(None, 0)


def keep_copy(target: Path, *, pace: CopyPace | None = None) -> VerifiedCopy:
    """Verify `TARGET.partial` and move it to `target` atomically. Blocks.

    The disk must return every byte that was written to it, and SQLite's check of all pages must pass. If
    anything fails, the file is removed and `target` is unchanged.

    Raises:
        StorageFull, StorageFailed, StorageClosed: as `copy_pages`, or the copy is damaged.
    """
    pace = pace or CopyPace()
    with _replacement_file(target, is_new=False) as partial:
        digest = _digest_on_disk(partial, pace)
        check_pages(partial, pace=pace)
        return _put_in_place(partial, target, digest)


def copy_file(source: Path, target: Path, *, digest: str) -> VerifiedCopy:
    """Copy a single-file database that no process writes to; it must have the given digest. Blocks.

    Raises:
        StorageFull: there is no space for the copy.
        StorageFailed: the copy could not be written, or the disk returns different data.
    """
    with _replacement_file(target) as partial:
        with source.open("rb") as read, os.fdopen(_open_private(partial), "wb") as written:
            shutil.copyfileobj(read, written, OCTETS_PER_STEP)
        _sync(partial, forget=True)
        if file_digest(partial) != digest:
            raise _different(partial)
        return _put_in_place(partial, target, digest)


def _rests_until_stopped(pace: CopyPace) -> bool:
    """Rest if necessary; return whether SQLite should stop."""
    with contextlib.suppress(StorageClosed):
        pace.step()
    return pace.is_stopped


def discard_copy(target: Path) -> None:
    """Remove the file written by `copy_pages`, if it exists. Blocks."""
    with contextlib.suppress(OSError):  # a later copy removes it, like after a kill
        _remove(partial_of(target))


def partial_of(target: Path) -> Path:
    """Return the path of the copy that is not verified yet."""
    return target.with_name(f"{target.name}.partial")


def _compact_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.compact")


@contextlib.contextmanager
def _replacement_file(target: Path, *, is_new: bool = True) -> Iterator[Path]:
    """Yield the file that replaces the target once it is verified; remove it if anything fails."""
    partial = partial_of(target)
    try:
        if is_new:
            _remove(partial)
        yield partial
    except BaseException as error:
        with contextlib.suppress(OSError):  # the error below describes the folder's problem
            _remove(partial)
        if isinstance(error, Error):
            raise translated(error, f"cannot copy the database to {target}") from error
        if isinstance(error, OSError):
            raise _disk_error(error, target) from error
        raise


def _put_in_place(partial: Path, target: Path, digest: str) -> VerifiedCopy:
    size = partial.stat().st_size
    _sync(partial)
    partial.replace(target)
    sync_folder(target.parent)
    return VerifiedCopy(size, digest)


def file_digest(path: Path, *, pace: CopyPace | None = None) -> str:
    """Return the SHA-256 of a file that no process writes to, like `sha256sum`. Blocks.

    Raises:
        OSError: the file cannot be read.
    """
    pace = pace or CopyPace()
    total = hashlib.sha256()
    with path.open("rb") as file:
        while octets := file.read(OCTETS_PER_STEP):
            total.update(octets)
            pace.step()
    return total.hexdigest()


def _digest_on_disk(path: Path, pace: CopyPace) -> str:
    """Return the digest of a file that was just written, after reading it from the disk again."""
    written = file_digest(path, pace=pace)
    _sync(path, forget=True)
    if file_digest(path, pace=pace) != written:
        raise _different(path)
    return written


def _different(path: Path) -> StorageFailed:
    return StorageFailed(
        f"The disk returns different data than was written to {path}.", hint="Check the disk and the memory."
    )


def check_pages(path: Path, *, pace: CopyPace | None = None) -> None:
    """Let SQLite check all pages of a database that no process writes to. Blocks.

    Raises:
        StorageFailed: the database is damaged, or the file is not a database.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or CopyPace()
    with closing(open_connection(path, readonly=True)) as connection:
        connection.set_progress_handler(lambda: pace.is_stopped, _STEPS_PER_LOOK)
        try:
            problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        except Error as error:
            if pace.is_stopped:
                raise StorageClosed("The copy was stopped.") from error
            raise translated(error, f"cannot read {path}") from error
    if problems != ["ok"]:
        raise StorageFailed(
            f"{path} is damaged: {'; '.join(problems[:_MAX_PROBLEMS])}",
            hint="Use another backup; `agentctx doctor` looks at the database and the disk.",
        )


def _remove(partial: Path) -> None:
    compact = _compact_of(partial)
    for path in (partial, compact):
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync the names of a folder's files to disk. Raises OSError."""
    _sync(folder)


def _sync(path: Path, *, forget: bool = False) -> None:
    """Sync a folder or a file, but never a live database. `forget` also evicts it from the page cache."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        if forget and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _open_private(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)


def _disk_error(error: OSError, target: Path) -> AgentctxError:
    if error.errno in _FULL_ERRNOS:
        return StorageFull(f"No space left for {target}.", hint="Free disk space, or copy to another disk.")
    return StorageFailed(
        f"Cannot write {target}: {error.strerror or error}.",
        hint="Check that the folder exists and is writable by the daemon's user.",
    )


class RunningCopy:
    """One copy, made by a function that runs outside of the connection's own thread. `stop` ends it."""

    def __init__(
        self, copy: Callable[[Connection], None], connection: Connection, stop: threading.Event
    ) -> None:
        self._work = asyncio.ensure_future(asyncio.to_thread(copy, connection))
        self._stop = stop
        self._reopens = False

    async def result(self) -> None:
        """Wait for the copy.

        Raises:
            StorageFailed: the copy was ended because the connection had to be closed.
            Exception: raised by the function.
        """
        try:
            await asyncio.wait([self._work])
        except asyncio.CancelledError:
            await self.end()
            self._work.exception()  # retrieved, so that asyncio does not report it as lost
            raise
        error = self._work.exception()
        if error is None:
            return
        if not self._reopens:
            raise error
        raise StorageFailed(
            "The copy was stopped: the disk failed, and the database is being reopened.",
            hint="Start it again.",
        ) from error

    async def end(self, *, reopens: bool = True) -> None:
        """Stop the copy and wait for its end. `reopens`: the database is reopened, so it can be repeated."""
        self._reopens = reopens
        self._stop.set()
        await finish_work(asyncio.ensure_future(asyncio.wait([self._work])))
