"""The facts about database files that are not open, for the doctor and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Final

DATABASE_NAME: Final = "agentctx.db"
"""Name of the database file in the data folder."""
RESCUED: Final = ".rescued-"
"""Part of the name of a daemon's copy of a database that was removed or replaced; a time follows."""
MEBIBYTE: Final = 1024 * 1024


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is missing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def rescue_copies(database: Path) -> Sequence[Path]:
    """Return a daemon's copies of a database that was removed or replaced while open, oldest first."""
    return sorted(database.parent.glob(f"{database.name}{RESCUED}*Z"))


def restore_command(copy: Path) -> str:
    """Return the command that puts such a copy in the place of the database beside it."""
    return f"agentctx restore {quote(str(copy))} --data-dir {quote(str(copy.parent))}"
