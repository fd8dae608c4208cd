"""Copies of a database that is in use: of one snapshot, compared with it row by row, whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentctx.errors import AgentctxError, StorageClosed, StorageFailed, StorageFull
from agentctx.sqlite.driver import Connection, Error, open_connection, open_copy_target, translated

PAGES_A_STEP: Final = 2_000
"""Between two steps a copy can be stopped."""
ROWS_A_STEP: Final = 32
"""Between two steps the other threads get their turn: the interpreter alone would let them wait for 5 ms."""
_STEPS_A_LOOK: Final = 1_000
"""Steps of SQLite's own check between two looks at whether it was stopped."""
_MARSHAL_WITHOUT_REFERENCES: Final = 2
_MOST_PROBLEMS: Final = 5
_FULL_ERRNOS: Final = frozenset({28, 122})
"""ENOSPC, EDQUOT."""

BUSY_S: Final = 0.002
"""CPU time after which a copy beside other work rests."""
REST: Final = 3.0
"""Times what it worked. Saves on a machine of two cores keep four fifths of their rate then."""


class Pace:
    """How a copy goes on: at full speed, or resting in between, so that others are served meanwhile.

    `stop`, once set, ends the copy at its next step.
    """

    def __init__(self, stop: threading.Event | None = None, *, rests: bool = False) -> None:
        self._stop = stop or threading.Event()
        self._rests = rests
        self._resumed = time.thread_time()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def step(self) -> None:
        """Between two pieces of work. Raises `StorageClosed` when it was stopped."""
        if self.is_stopped:
            raise StorageClosed("the copy was stopped")
        if not self._rests:
            return
        worked_s = time.thread_time() - self._resumed
        if worked_s >= BUSY_S:
            self._stop.wait(REST * worked_s)
            self._resumed = time.thread_time()


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy: its size in bytes, and the digest of its rows, which is that of its source's."""

    bytes: int
    digest: str


def copy_database(source: Connection, target: Path, *, pace: Pace | None = None) -> Copied:
    """Write what `source` sees now into `target` (mode 0600) and compare the two. Blocks.

    Others may write to the source meanwhile: everything is read in one read transaction, the caller's if
    there is one, which ends before the copy is read back. A file that was there is replaced at the end, in
    one step, and stays what it was if anything fails or the process is killed; then a file `TARGET.partial`
    may be left, which the next copy removes.

    The copy is a plain SQLite file without a WAL.

    Raises:
        StorageFull: no space for it.
        StorageFailed: it could not be written, or is not what was read.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or Pace()
    partial = target.with_name(f"{target.name}.partial")
    try:
        _remove(partial)
        digest = _copy(source, partial, pace)
        check_copy(partial, digest, pace=pace)
        _sync(partial)
        partial.replace(target)
        sync_folder(target.parent)
        return Copied(target.stat().st_size, digest)
    except Error as error:
        raise translated(error, f"cannot copy the database to {target}") from error
    except OSError as error:
        raise _disk_error(error, target) from error
    finally:
        with contextlib.suppress(OSError):  # what is wrong with the folder was said above
            _remove(partial)


def _copy(source: Connection, partial: Path, pace: Pace) -> str:
    """Write the copy and return the digest of what was read, both in one snapshot."""
    if not source.in_transaction:
        source.execute("BEGIN")
    try:
        digest = digest_rows(source, pace=pace)
        with closing(open_copy_target(partial)) as target:
            source.backup(target, pages=PAGES_A_STEP, progress=lambda *_: pace.step(), sleep=0)
            # A copy brings the source's mode with it; a WAL beside a backup would only be in the way.
            target.execute("PRAGMA journal_mode=DELETE")
        return digest
    finally:
        if source.in_transaction:
            source.execute("ROLLBACK")


def check_copy(path: Path, digest: str | None = None, *, pace: Pace | None = None) -> str:
    """Read all of a database that nobody writes to; returns the digest of its rows. Blocks.

    Raises:
        StorageFailed: it is damaged or no database, or its rows do not have this digest.
        StorageClosed: `pace` was stopped.
    """
    pace = pace or Pace()
    with closing(open_connection(path, readonly=True)) as connection:
        connection.set_progress_handler(lambda: pace.is_stopped, _STEPS_A_LOOK)
        try:
            problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            if problems != ["ok"]:
                raise StorageFailed(
                    f"{path} is damaged: {'; '.join(problems[:_MOST_PROBLEMS])}",
                    hint="Use another backup; `agentctx doctor` looks at the database and the disk.",
                )
            found = digest_rows(connection, pace=pace)
        except Error as error:
            if pace.is_stopped:
                raise StorageClosed("the copy was stopped") from error
            raise translated(error, f"cannot read {path}") from error
    if digest is not None and found != digest:
        raise StorageFailed(
            f"the copy {path} does not have the rows that were read", hint="Check disk and memory."
        )
    return found


def digest_rows(connection: Connection, *, pace: Pace | None = None) -> str:
    """SHA-256 over the schema and every row of every table, those of words and vectors included. Blocks.

    The caller holds the snapshot.
    """
    pace = pace or Pace()
    total = hashlib.sha256()
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    _add(total, schema)
    for kind, name, sql in schema:
        if kind == "table" and not str(sql).upper().startswith("CREATE VIRTUAL"):
            quoted = name.replace('"', '""')
            rows = connection.execute(f'SELECT * FROM "{quoted}" NOT INDEXED')  # noqa: S608 - a name of the schema
            while batch := rows.fetchmany(ROWS_A_STEP):
                _add(total, batch)
                time.sleep(0)
                pace.step()
    return total.hexdigest()


def _add(total: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    """The newer formats write an object that came before as a reference, so that equal rows may differ."""
    total.update(marshal.dumps(list(rows), _MARSHAL_WITHOUT_REFERENCES))


def _remove(partial: Path) -> None:
    for path in (partial, partial.with_name(f"{partial.name}-journal")):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on the disk. Raises OSError."""
    _sync(folder)


def _sync(path: Path) -> None:
    """Have a file that is no live database, or a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_error(error: OSError, target: Path) -> AgentctxError:
    if error.errno in _FULL_ERRNOS:
        return StorageFull(f"no space left for {target}", hint="Free disk space, or copy to another disk.")
    return StorageFailed(
        f"cannot write {target}: {error.strerror or error}",
        hint="Check that the folder exists and that the user of the daemon may write there.",
    )
