"""Is this machine's SQLite fit: its version, the extension for vectors, the index of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from agentctx.errors import DriverUnsuitable
from agentctx.sqlite.driver import (
    FIXED_SINCE,
    Connection,
    driver_name,
    is_fixed,
    open_connection,
    sqlite_version,
)

T = TypeVar("T")

_INSTALL: Final = "Install agentctx again into a fresh environment; pysqlite3 brings a suitable SQLite."


def fit_version(version: str, driver: str) -> str:
    """`version` is like `3.53.4`. Raises `DriverUnsuitable` for one that can corrupt a database."""
    if is_fixed(_parsed(version)):
        return f"SQLite {version}, by {driver}"
    since = ".".join(map(str, FIXED_SINCE))
    raise DriverUnsuitable(
        f"SQLite {version}, by {driver}, can corrupt WAL databases.",
        hint=f"{_INSTALL} Or use a Python with SQLite {since} or newer.",
    )


def _look_at_vec() -> str:
    return f"sqlite-vec {_tried(lambda db: db.execute('SELECT vec_version()').fetchone()[0])}"


def _look_at_fts5() -> str:
    _tried(lambda db: db.execute("CREATE VIRTUAL TABLE a USING fts5(text, tokenize = 'porter unicode61')"))
    return "SQLite has FTS5, the index of words"


def _tried(statement: Callable[[Connection], T]) -> T:
    """Run something on a fresh database that is opened as the real one is."""
    with (
        TemporaryDirectory(prefix="agentctx-doctor-") as folder,
        closing(open_connection(Path(folder, "a.db"))) as db,
    ):
        return statement(db)


def _parsed(version: str) -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major, minor, patch


TRIALS: Final[Mapping[str, Callable[[], str]]] = {
    "sqlite.version": lambda: fit_version(sqlite_version(), driver_name()),
    "sqlite.vec": _look_at_vec,
    "sqlite.fts5": _look_at_fts5,
}
