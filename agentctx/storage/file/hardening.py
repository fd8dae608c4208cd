"""Hardens every SQLite connection: sets limits, switches triggers off, and forbids writes to shadow tables.

No pragma sets them. Python's own module has `setlimit` since 3.11 and `setconfig` since 3.12, but pysqlite3,
which most installations need, has neither. So SQLite's C functions are called directly: it calls an entry
point for each connection that it opens (`sqlite3_auto_extension`), with the handle on which `sqlite3_limit`
and `sqlite3_db_config` act. They only configure: nothing is written through them.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

LIMITS: Final = {
    "LENGTH": (0, 256 * 1024 * 1024),
    "SQL_LENGTH": (1, 1_000_000),
    "COLUMN": (2, 100),
    "EXPR_DEPTH": (3, 200),
    "COMPOUND_SELECT": (4, 50),
    "FUNCTION_ARG": (6, 32),
    "LIKE_PATTERN_LENGTH": (8, 1_000),
    "TRIGGER_DEPTH": (10, 20),
    "WORKER_THREADS": (11, 0),
}
"""By name: number of `SQLITE_LIMIT_…`, and the maximum. All far above what our own statements need."""

_EXTENSIONS: Final = {"pysqlite3": "pysqlite3._sqlite3", "sqlite3": "_sqlite3"}
"""The extension module of each driver that is linked with SQLite."""
_LIMIT_ATTACHED: Final = 7
_DBCONFIG_DEFENSIVE: Final = 1010
_DBCONFIG_ENABLE_TRIGGER: Final = 1003
_ASK: Final = -1
_OK: Final = 0
_ENTRY_POINT: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_registered: Final[list[Any]] = []
"""Never freed: SQLite calls every registered entry point as long as the process lives."""


class Hardening:
    """Hardens the connections that are opened with `connect`.

    If the functions of the driver's SQLite cannot be called from outside, connections stay as the driver
    makes them, and `is_defended` returns False.

    Args:
        driver: the module `pysqlite3` or `sqlite3`.
    """

    def __init__(self, driver: ModuleType) -> None:
        self._connect = driver.connect
        self._opening = threading.local()
        self._class = _class_with_handle(driver.Connection)
        self._library = _library_of(driver)
        if self._library is not None:
            entry_point = _ENTRY_POINT(self._opened)
            _registered.append(entry_point)
            if self._library.sqlite3_auto_extension(entry_point) != _OK:
                self._library = None

    def connect(self, database: str, **options: Any) -> Any:
        """Open a connection like the driver's `connect`, with the limits, and without triggers."""
        self._opening.handle = 0
        try:
            connection = self._connect(database, factory=self._class, **options)
            connection.handle = self._opening.handle
        finally:
            del self._opening.handle
        return connection

    def defend(self, connection: Any) -> None:
        """Make the schema and the shadow tables of FTS5 and vec0 read-only to statements, and forbid ATTACH.

        The virtual tables themselves can still write there. VACUUM, which attaches, is refused.
        """
        self._defensive(connection, 1)
        if self._library is not None:
            self._library.sqlite3_limit(_handle_of(connection), _LIMIT_ATTACHED, 0)

    @contextmanager
    def without_defensive(self, connection: Any) -> Iterator[None]:
        """Let a repair write into shadow tables, and restore the previous state afterwards."""
        before = self._defensive(connection, _ASK)
        self._defensive(connection, 0)
        try:
            yield
        finally:
            self._defensive(connection, int(before))

    @contextmanager
    def uninterrupted(self, connection: Any) -> Iterator[None]:
        """Ignore attempts of other threads to interrupt the connection during the block."""
        with connection.interrupting:
            yield

    def is_defended(self, connection: Any) -> bool:
        return self._defensive(connection, _ASK)

    def limits(self, connection: Any) -> dict[str, int]:
        """Return the limits in force, by the names of `LIMITS`; empty if none could be set."""
        if self._library is None:
            return {}
        handle = _handle_of(connection)
        return {
            name: self._library.sqlite3_limit(handle, number, _ASK) for name, (number, _) in LIMITS.items()
        }

    def _defensive(self, connection: Any, value: int) -> bool:
        now = ctypes.c_int(0)
        if self._library is None:
            return False
        self._library.sqlite3_db_config(
            _handle_of(connection), _DBCONFIG_DEFENSIVE, ctypes.c_int(value), ctypes.byref(now)
        )
        return bool(now.value)

    def _opened(self, handle: int, _message: Any, _routines: Any) -> int:
        # Others in this process, such as Chroma, may open databases with the same library.
        if self._library is not None and hasattr(self._opening, "handle"):
            for number, most in LIMITS.values():
                self._library.sqlite3_limit(handle, number, most)
            self._library.sqlite3_db_config(handle, _DBCONFIG_ENABLE_TRIGGER, ctypes.c_int(0), None)
            self._opening.handle = handle
        return _OK


def _library_of(driver: ModuleType) -> ctypes.CDLL | None:
    """Return the SQLite library of the driver; None if it cannot be reached."""
    extension = importlib.import_module(_EXTENSIONS[driver.__name__])
    try:
        # Without a file, the extension is a part of the interpreter.
        library = ctypes.CDLL(getattr(extension, "__file__", None))
        # Only the fixed arguments; the rest are passed like C's variable arguments.
        library.sqlite3_db_config.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.sqlite3_limit.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        _ = library.sqlite3_auto_extension
    except (OSError, AttributeError):
        return None
    return library


def _class_with_handle(base: Any) -> Any:
    class HardenedConnection(base):  # type: ignore[misc]  # the driver is chosen when it is imported
        """A connection that knows its SQLite handle, and that can refuse to be interrupted."""

        handle = 0
        """0 when closed."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self.interrupting = threading.Lock()
            self.notes: set[Any] = set()
            super().__init__(*args, **options)

        def interrupt(self) -> None:
            if self.interrupting.acquire(blocking=False):
                try:
                    super().interrupt()
                finally:
                    self.interrupting.release()

        def close(self) -> None:
            self.handle = 0
            super().close()

    return HardenedConnection


def _handle_of(connection: Any) -> int:
    handle = connection.handle
    if not handle:
        raise ValueError("the connection is closed")
    return int(handle)
