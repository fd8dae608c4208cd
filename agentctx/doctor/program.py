"""Is the program itself fit to run: interpreter, SQLite, the extension for vectors, the index of words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from agentctx.doctor.check import Check, Finding, blocking, failed, passed, warned
from agentctx.sqlite.driver import (
    FIXED_SINCE,
    Connection,
    driver_name,
    is_fixed,
    open_connection,
    sqlite_version,
)

T = TypeVar("T")

PYTHON_FROM = (3, 11)
PYTHON_BELOW = (3, 14)
_INSTALL = "Install agentctx again into a fresh environment; pysqlite3 brings a fit SQLite."


def program_checks() -> list[Check]:
    return [
        Check(id="python.version", run=blocking(lambda: judge_python(sys.version_info[:3], sys.executable))),
        Check(id="sqlite.version", run=blocking(lambda: judge_sqlite(sqlite_version(), driver_name()))),
        Check(id="sqlite.vec", run=blocking(_look_at_vec)),
        Check(id="sqlite.fts5", run=blocking(_look_at_fts5)),
    ]


def judge_python(version: tuple[int, ...], executable: str) -> Finding:
    name = f"Python {_dotted(version)}"
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return passed(name, detail=executable)
    return warned(
        f"{name} is not one agentctx is tested with",
        detail=executable,
        hint=f"Use Python {_dotted(PYTHON_FROM)} or newer, below {_dotted(PYTHON_BELOW)}.",
    )


def judge_sqlite(version: str, driver: str) -> Finding:
    """`version` is like `3.53.4`."""
    if is_fixed(_parsed(version)):
        return passed(f"SQLite {version}, by {driver}")
    return failed(
        f"SQLite {version}, by {driver}, can corrupt WAL databases",
        hint=f"{_INSTALL} Else use a Python with SQLite {_dotted(FIXED_SINCE)} or newer.",
    )


def _look_at_vec() -> Finding:
    return passed(f"sqlite-vec {_tried(lambda db: db.execute('SELECT vec_version()').fetchone()[0])}")


def _look_at_fts5() -> Finding:
    _tried(lambda db: db.execute("CREATE VIRTUAL TABLE a USING fts5(text, tokenize = 'porter unicode61')"))
    return passed("SQLite has FTS5, the index of words")


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


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
