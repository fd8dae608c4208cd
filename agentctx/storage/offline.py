"""The facts about database files that are not open, for the doctor and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DATABASE_NAME: Final = "agentctx.db"
"""Name of the database file in the data folder."""
MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Sizes of the files of a database in bytes; 0 for a missing one."""

    database: int
    log: int
    """The WAL, with the commits that are not in the database file yet."""
