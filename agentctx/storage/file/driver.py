"""The only module that imports SQLite and sqlite-vec: it chooses the driver and opens connections.

pysqlite3 is preferred over the standard module, because many interpreters are built without loadable
extensions. SQLite 3.7.0 to 3.51.2 can corrupt a WAL database and is refused, except for the fixed branches.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import sqlite_vec

from agentctx.errors import AgentctxError, DriverUnsuitable, StorageCorrupt, StorageFailed, StorageFull
from agentctx.storage.file.hardening import Hardening

T = TypeVar("T")
Version: TypeAlias = tuple[int, int, int]

FIXED_SINCE: Final[Version] = (3, 51, 3)
FIXED_BRANCHES: Final[tuple[Version, ...]] = ((3, 50, 7), (3, 44, 6))
"""Older branches with a backport of the fix for the WAL-reset bug, by their first fixed version."""

BUSY_TIMEOUT_MS: Final = 5_000
_PREFERRED: Final = ("pysqlite3", "sqlite3")
FIRST_ID: Final = -(2**63)
LAST_ID: Final = 2**63 - 1
"""The least and the greatest possible row id."""
_CORRUPT: Final = "SQLITE_CORRUPT"
_FULL: Final = "SQLITE_FULL"
_NAMES: Final = {"database or disk is full": _FULL, "disk I/O error": "SQLITE_IOERR"}
"""Error names by SQLite's message, which is all that the driver reports of a failed `Connection.backup`."""

_MOST_MAPPED_BYTES: Final = 2**31 - 2**16
_COMMON_PRAGMAS: Final = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "temp_store=MEMORY",
    "trusted_schema=0",
    # Each connection would map the file again, and its pages would count as the daemon's memory. Besides,
    # writes must be visible to tools that trace system calls, like the power-cut tests.
    "mmap_size=0",
)
_READER_PRAGMAS: Final = (
    # Questions among many entries seldom read a page again.
    "cache_size=-4000",
    # A mapped page is checked at each use, and checking its cells doubles the time of a keyword search.
    # Rows have their own checksums, and the integrity check covers every cell.
    "cell_size_check=0",
)
_WRITER_PRAGMAS: Final = (
    "cache_size=-8000",
    "cell_size_check=1",
    "synchronous=FULL",
    "foreign_keys=1",
    # Without it deleted text stays readable in the file.
    "secure_delete=ON",
    f"journal_size_limit={64 * 1024 * 1024}",
    # The writer does checkpoints (`checkpoint.py`): inside a commit, a failed sync would go unnoticed.
    "wal_autocheckpoint=0",
)


@dataclass(frozen=True, slots=True)
class DriverCandidate:
    """An installed driver: its module, its SQLite version, and whether it can load sqlite-vec."""

    name: str
    version: Version
    loads_extensions: bool


def is_fixed(version: Version) -> bool:
    """Return whether this SQLite version is free of the WAL-reset corruption bug."""
    return version >= FIXED_SINCE or any(
        version[:2] == branch[:2] and version >= branch for branch in FIXED_BRANCHES
    )


def choose(candidates: Sequence[DriverCandidate]) -> DriverCandidate:
    """Return the first candidate that is safe and can load extensions.

    Raises:
        DriverUnsuitable: there is none; the message names the problem of each.
    """
    for candidate in candidates:
        if candidate.loads_extensions and is_fixed(candidate.version):
            return candidate
    raise DriverUnsuitable(
        "No usable SQLite: " + "; ".join(map(_fault, candidates)),
        hint="Install pysqlite3 (0.6.1 or newer) into this environment, or use a Python whose own sqlite3 "
        f"has SQLite {_dotted(FIXED_SINCE)} or newer and can load extensions.",
    )


def _fault(candidate: DriverCandidate) -> str:
    faults = []
    if not is_fixed(candidate.version):
        faults.append(f"SQLite {_dotted(candidate.version)} can corrupt WAL databases")
    if not candidate.loads_extensions:
        faults.append("it cannot load extensions")
    return f"{candidate.name}: {' and '.join(faults)}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _installed() -> dict[str, ModuleType]:
    modules = {}
    for name in _PREFERRED:
        with contextlib.suppress(ImportError):
            modules[name] = importlib.import_module(name)
    return modules


def _candidates(modules: dict[str, ModuleType]) -> list[DriverCandidate]:
    return [
        DriverCandidate(name, module.sqlite_version_info, hasattr(module.Connection, "enable_load_extension"))
        for name, module in modules.items()
    ]


_modules = _installed()
try:
    _driver: Any = _modules[choose(_candidates(_modules)).name]
except DriverUnsuitable:
    # The names below must exist so that `doctor` can report the problem; open_connection refuses.
    _driver = _modules["sqlite3"]

if TYPE_CHECKING:
    # pysqlite3 has the interface of the standard module, but no types.
    from sqlite3 import (
        Connection,
        Error,
        IntegrityError,
        OperationalError,
        complete_statement,
    )
else:
    Connection = _driver.Connection
    Error = _driver.Error
    IntegrityError = _driver.IntegrityError
    OperationalError = _driver.OperationalError
    complete_statement = _driver.complete_statement


hardening: Final = Hardening(_driver)
"""Applies limits and the defensive mode to every connection opened here."""


def sqlite_version() -> str:
    """Return the version of the SQLite in use, like `3.53.4`."""
    return str(_driver.sqlite_version)


def driver_name() -> str:
    """Return the name of the driver in use: `pysqlite3` or `sqlite3`."""
    return str(_driver.__name__)


def open_connection(path: str | Path, *, readonly: bool = False) -> Connection:
    """Open the database; a writer creates it (mode 0600) and puts it into WAL mode. Blocks.

    Rows are tuples, transactions are explicit, and sqlite-vec is loaded. A reader may use temporary tables.

    Raises:
        DriverUnsuitable: no installed SQLite is new enough and loads extensions.
        StorageFailed: the file is missing (reader), cannot be created or is not a database.
    """
    choose(_candidates(_modules))
    path = Path(path).absolute()
    if not readonly:
        create_private(path)
    try:
        connection = _connect(path, mode="ro" if readonly else "rw")
        try:
            _prepare(connection, readonly=readonly)
        except BaseException:
            connection.close()
            raise
    except Error as error:
        raise translated(error, f"cannot open the database {path}") from error
    except UnicodeDecodeError as error:  # SQLite's error about a damaged schema quotes it
        raise StorageFailed(f"Cannot open the database {path}: its schema is damaged.") from error
    return connection


def notes_of(connection: Connection) -> set[Any]:
    """Return what the functions of a transaction note for `Writer.noted`, as they run.

    A transaction that is rolled back leaves its notes. Connections that were not opened here keep none.
    """
    notes: set[Any] = getattr(connection, "notes", set())
    return notes


def open_in_memory() -> Connection:
    """Open an empty database in memory, for computations with FTS5. One thread at a time may use it.

    Raises:
        DriverUnsuitable: no installed SQLite is new enough.
    """
    choose(_candidates(_modules))
    connection: Connection = _driver.connect(":memory:", isolation_level=None, check_same_thread=False)
    return connection


def open_copy_target(path: Path) -> Connection:
    """Create an empty file (mode 0600) as the target of a database copy. Blocks.

    Nothing is synced: the caller does that once, at the end.

    Raises:
        StorageFailed: the file already exists, or cannot be created.
    """
    path = path.absolute()
    if path.exists():
        raise StorageFailed(f"{path} already exists.", hint="Remove it, or choose another file.")
    create_private(path)
    try:
        connection = _connect(path, mode="rw")
        connection.execute("PRAGMA synchronous=OFF")
    except Error as error:
        raise translated(error, f"cannot write {path}") from error
    return connection


@contextlib.contextmanager
def mapped(connection: Connection) -> Iterator[None]:
    """Let a reader map the file within the block, which must fetch all that it selects.

    To reach a vector, SQLite reads some 50 pages before it: a quarter faster if they are mapped.
    """
    connection.execute(f"PRAGMA mmap_size={_MOST_MAPPED_BYTES}")
    try:
        yield
    finally:
        connection.execute("PRAGMA mmap_size=0")


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read. Never opens an existing one.

    Closing a second descriptor of a live database drops its POSIX locks.

    Raises:
        StorageFailed: the file cannot be created, or exists but is a folder, a pipe or a device.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():  # SQLite would wait forever for the other end of a pipe
            raise StorageFailed(
                f"The database {path} is not a regular file.",
                hint="Move it away, or choose another --data-dir.",
            ) from None
    except OSError as error:
        raise StorageFailed(
            f"Cannot create the database {path}: {error.strerror}.",
            hint="Check that the folder exists and is writable; a systemd service needs BindPaths= for it.",
        ) from error


def _connect(path: Path, *, mode: str) -> Connection:
    connection: Connection = hardening.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        cached_statements=256,
        timeout=BUSY_TIMEOUT_MS / 1_000,
        # Only ConnectionThread uses it; interrupt() and an abandoned opening alone cross threads.
        check_same_thread=False,
    )
    connection.text_factory = _text
    return connection


_text = methodcaller("decode", "utf-8", "backslashreplace")
"""Decodes a text of the database. Invalid UTF-8 becomes escapes, so that a checksum still detects it.

The driver's own conversion fails the whole statement: one damaged text would hide all rows beside it. This is
not a function in Python, which would take 40 % longer: a question reads a thousand texts.
"""


def _prepare(connection: Connection, *, readonly: bool) -> None:
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.enable_load_extension(False)
    for pragma in (*_COMMON_PRAGMAS, *(_READER_PRAGMAS if readonly else _WRITER_PRAGMAS)):
        connection.execute(f"PRAGMA {pragma}")
    if readonly:
        return
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StorageFailed(
            f"The database stays in journal mode {mode}; WAL is required.",
            hint="Put the data folder on a local disk.",
        )
    _require_writable(connection)


def _require_writable(connection: Connection) -> None:
    """Raise Error if the database or its WAL cannot be written.

    Where opening a file for writing fails, SQLite opens it for reading, and only a write shows that: with a
    read-only database file even BEGIN IMMEDIATE succeeds.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("PRAGMA user_version=0")  # rolled back
    connection.execute("ROLLBACK")


_HINTS: Final = {
    "SQLITE_BUSY": "Another program has locked the database; stop it.",
    "SQLITE_CANTOPEN": "Check that the file exists and that its folder is writable.",
    "SQLITE_CORRUPT": "Run `agentctx doctor`; it names the repair, or the backup to restore.",
    "SQLITE_IOERR": "Check the disk.",
    "SQLITE_NOTADB": "This file is not a SQLite database; choose another one or restore a backup.",
    "SQLITE_PERM": "Check the owner and the mode of the file.",
    "SQLITE_READONLY": "Check the owner and the mode of the file and of its folder.",
}


def translated(error: Error, what: str = "the database could not do this") -> AgentctxError:
    """Return the error to raise: StorageFull, StorageCorrupt for damaged pages, or StorageFailed.

    Only SQLite's name of the error is passed on: its messages can contain SQL and text of entries.
    """
    name: str = getattr(error, "sqlite_errorname", "") or _NAMES.get(str(error), type(error).__name__)
    if name == _FULL:
        return StorageFull("No space left for the database.")
    hints = (hint for code, hint in _HINTS.items() if name == code or name.startswith(f"{code}_"))
    kind = StorageCorrupt if name.startswith(_CORRUPT) else StorageFailed
    return kind(f"{what} ({name})", hint=next(hints, None))


__all__ = ["Connection", "Error", "IntegrityError", "OperationalError", "complete_statement"]
