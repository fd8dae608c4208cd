"""Copies of databases, even live ones: verified, and put in place as a whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from agentctx.errors import AgentctxError, StorageClosed, StorageFailed, StorageFull
from agentctx.sqlite.driver import Connection, Error, open_connection, open_copy_target, translated
from agentctx.sqlite.wipe import wipe_gaps

PAGES_PER_STEP: Final = 2_000
"""A copy can be stopped between two steps."""
PAGES_BETWEEN_COMMITS: Final = 128
"""A commit waits for at most one such step, which takes up to three milliseconds."""
COMMIT_S: Final = 0.002
"""How often a copy checks whether a transaction of its own connection has ended."""
OCTETS_PER_STEP: Final = 1024 * 1024
ROWS_PER_STEP: Final = 32
"""Between two steps other threads get a turn; the interpreter alone would make them wait for 5 ms."""
_STEPS_PER_LOOK: Final = 1_000
"""How many steps SQLite's own check runs between two checks whether to stop."""
_MARSHAL_WITHOUT_REFERENCES: Final = 2
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


Finish: TypeAlias = Callable[[Connection, CopyPace], None]
"""Changes a copy that is not in use yet."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy: its size in bytes, and a SHA-256 digest, of its rows or of the file."""

    bytes: int
    digest: str


def copy_database(source: Connection, target: Path, *, pace: CopyPace | None = None) -> Copied:
    """Write a snapshot of `source` into `target` (mode 0600) and compare the two row by row. Blocks.

    Others may keep writing to the source: everything is read in one read transaction, the caller's if there
    is one, which ends before the copy is verified; all that is written until then stays in the WAL. An
    existing target is replaced atomically at the end, and is unchanged if anything fails or the process is
    killed; a file `TARGET.partial` may then be left, which the next copy removes.

    The copy is a plain SQLite file without a WAL. `Copied.digest` is the digest of the rows.

    Raises:
        StorageFull: there is no space for the copy.
        StorageFailed: the copy could not be written, or differs from what was read.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or CopyPace()
    with _replacement_file(target) as partial:
        digest = _copy_snapshot(source, partial, pace)
        check_copy(partial, digest, pace=pace)
        return _put_in_place(partial, target, digest)


def copy_pages(
    source: Connection, target: Path, *, pace: CopyPace | None = None, finish: Finish | None = None
) -> None:
    """Copy `source` into `TARGET.partial` (mode 0600), for `keep_copy`. Blocks.

    `source` is the only connection that writes, and its own thread may keep using it. SQLite adds its commits
    to the copy (https://sqlite.org/backup.html), which shows the database at the end of the copying; no
    snapshot is open, so the WAL need not keep later commits. `finish` may then change the copy, in one
    transaction that overwrites what it deletes. If the copy fails, the file is removed.

    Raises:
        StorageFull, StorageFailed, StorageClosed: as `copy_database`.
    """
    pace = pace or CopyPace()
    with _replacement_file(target) as partial:
        _copy_pages(source, partial, pace, PAGES_BETWEEN_COMMITS, finish)


def keep_copy(target: Path, *, pace: CopyPace | None = None) -> Copied:
    """Verify `TARGET.partial` and move it to `target` atomically. Blocks.

    Rows deleted from the source before the copying ended leave no trace in it. The disk must return every
    byte that was written to it, and SQLite's check of all pages must pass. `Copied.digest` is the digest of
    the file. If anything fails, the file is removed and `target` is unchanged.

    Raises:
        StorageFull, StorageFailed, StorageClosed: as `copy_database`.
    """
    pace = pace or CopyPace()
    with _replacement_file(target, is_new=False) as partial:
        _wipe(partial, pace)
        digest = _digest_on_disk(partial, pace)
        check_pages(partial, pace=pace)
        return _put_in_place(partial, target, digest)


def copy_file(source: Path, target: Path, *, digest: str) -> Copied:
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


def discard_copy(target: Path) -> None:
    """Remove the file written by `copy_pages`, if it exists. Blocks."""
    with contextlib.suppress(OSError):  # a later backup removes it, like after a kill
        _remove(_partial_of(target))


def _partial_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial")


@contextlib.contextmanager
def _replacement_file(target: Path, *, is_new: bool = True) -> Iterator[Path]:
    """Yield the file that replaces the target once it is verified; remove it if anything fails."""
    partial = _partial_of(target)
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


def _put_in_place(partial: Path, target: Path, digest: str) -> Copied:
    size = partial.stat().st_size
    _sync(partial)
    partial.replace(target)
    sync_folder(target.parent)
    return Copied(size, digest)


def _copy_snapshot(source: Connection, partial: Path, pace: CopyPace) -> str:
    """Write the copy and return the digest of the rows, both read in one snapshot."""
    if not source.in_transaction:
        source.execute("BEGIN")
    try:
        digest = digest_rows(source, pace=pace)
        _copy_pages(source, partial, pace, PAGES_PER_STEP)
        return digest
    finally:
        if source.in_transaction:
            source.execute("ROLLBACK")


def _copy_pages(
    source: Connection, partial: Path, pace: CopyPace, pages_a_step: int, finish: Finish | None = None
) -> None:
    with closing(open_copy_target(partial)) as target:
        source.backup(target, pages=pages_a_step, progress=lambda *_: pace.step(), sleep=COMMIT_S)
        # A copy takes over the source's mode; a WAL beside a backup would only be in the way.
        target.execute("PRAGMA journal_mode=DELETE")
        if finish is not None:
            _finish(target, pace, finish)


def _finish(target: Connection, pace: CopyPace, finish: Finish) -> None:
    """Apply `finish` without a journal on disk, which would contain what is deleted."""
    target.execute("PRAGMA secure_delete=ON")
    target.execute("PRAGMA journal_mode=MEMORY")
    target.execute("BEGIN")
    finish(target, pace)
    target.execute("COMMIT")


def _wipe(partial: Path, pace: CopyPace) -> None:
    partial.stat()  # raises the right error if the file is missing
    page: int | None = 1
    while page is not None:
        page = wipe_gaps(partial, first=page, pages=PAGES_PER_STEP).next_page
        pace.step()


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
        _check_pages(connection, path, pace)


def _check_pages(connection: Connection, path: Path, pace: CopyPace) -> None:
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


def check_copy(path: Path, digest: str | None = None, *, pace: CopyPace | None = None) -> str:
    """Read all of a database that no process writes to; return the digest of its rows. Blocks.

    Raises:
        StorageFailed: the database is damaged, is not one, or its rows do not have this digest.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or CopyPace()
    with closing(open_connection(path, readonly=True)) as connection:
        _check_pages(connection, path, pace)
        try:
            found = digest_rows(connection, pace=pace)
        except Error as error:
            if pace.is_stopped:
                raise StorageClosed("The copy was stopped.") from error
            raise translated(error, f"cannot read {path}") from error
    if digest is not None and found != digest:
        raise StorageFailed(
            f"The copy {path} does not contain the rows that were read.",
            hint="Check the disk and the memory.",
        )
    return found


def digest_rows(connection: Connection, *, pace: CopyPace | None = None) -> str:
    """Return a SHA-256 over the schema and all rows of all tables, including words and vectors. Blocks.

    The caller holds the snapshot.
    """
    pace = pace or CopyPace()
    total = hashlib.sha256()
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    _add(total, schema)
    for kind, name, sql in schema:
        if kind == "table" and not str(sql).upper().startswith("CREATE VIRTUAL"):
            quoted = name.replace('"', '""')
            rows = connection.execute(f'SELECT * FROM "{quoted}" NOT INDEXED')  # noqa: S608 - a name of the schema
            while batch := rows.fetchmany(ROWS_PER_STEP):
                _add(total, batch)
                time.sleep(0)
                pace.step()
    return total.hexdigest()


def _add(total: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    """Use an old format: newer ones write repeated objects as references, so that equal rows may differ."""
    total.update(marshal.dumps(list(rows), _MARSHAL_WITHOUT_REFERENCES))


def _remove(partial: Path) -> None:
    for path in (partial, partial.with_name(f"{partial.name}-journal")):
        path.unlink(missing_ok=True)


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
