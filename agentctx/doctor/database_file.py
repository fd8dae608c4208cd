"""Checks that the database is in place, and that no rescued copy of a removed one is left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentctx.config.bounded_files import read_bounded
from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine
from agentctx.doctor.daemon import RECORD_NAME, read_record
from agentctx.errors import DatabaseMissing
from agentctx.storage.opening import offline_storage
from agentctx.wire.wording import counted, listed

_MOVED = ".moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The state of a data folder as the next daemon would find it."""

    database: Path
    is_there: bool
    was_served: bool = False
    """Whether a daemon was ready on this folder before."""
    moved_to: str = ""
    """Where a running daemon last saw its files after they were moved."""
    rescue_copies: tuple[Path, ...] = ()
    """Copies that a daemon wrote of a removed or replaced database."""


def moved_note(data_dir: Path) -> Path:
    """Return the path of the file beside a data folder that says where the folder was moved."""
    return data_dir.with_name(f"{data_dir.name}{_MOVED}")


def database_facts(database: Path) -> DatabaseFacts:
    """Examine the data folder. Blocks. Raises `OSError`."""
    folder = database.parent
    return DatabaseFacts(
        database=database,
        is_there=database.exists(),
        was_served=_was_served(folder),
        moved_to=_moved_to(folder),
        rescue_copies=tuple(offline_storage().rescue_copies(database)),
    )


def _was_served(folder: Path) -> bool:
    try:
        record = read_record(folder)
    except ValueError:
        return False
    except OSError:  # a daemon may have: an empty database must not take the place of a lost one
        return True
    return record is not None and record.served


def _moved_to(folder: Path) -> str:
    try:
        return read_bounded(moved_note(folder)).decode(errors="surrogateescape").strip()
    except FileNotFoundError:
        return ""


def missing(facts: DatabaseFacts) -> DatabaseMissing | None:
    """Return why no empty database may be created here, or None if one exists or never did."""
    folder = facts.database.parent
    if facts.is_there:
        return None
    if facts.moved_to:
        return DatabaseMissing(
            f"{facts.database} is missing: a running daemon saw it move to {facts.moved_to}.",
            hint=f"Move it back, or start with --data-dir where it is now. To start with an empty memory, "
            f"remove {moved_note(folder)}.",
        )
    if facts.rescue_copies:
        return DatabaseMissing(
            f"{facts.database} is missing: a daemon saved its open copy as {facts.rescue_copies[-1].name}.",
            hint=f"Run `agentctx restore {facts.rescue_copies[-1]}`.",
        )
    if facts.was_served:
        return DatabaseMissing(
            f"{facts.database} is missing, and a daemon has served from it.",
            hint="Move it back, or run `agentctx restore BACKUP`; if it is on a server, set storage.url. To "
            f"start with an empty memory, remove {folder / RECORD_NAME}.",
        )
    return None


@check(Machine, "files.database", lambda machine: database_facts(machine.database))
def judge_database(facts: DatabaseFacts) -> Finding:
    if problem := missing(facts):
        return failed(problem.message, hint=problem.hint)
    if not facts.is_there:
        return skipped("nothing is saved yet")
    if facts.rescue_copies:
        return warned(
            f"{counted(len(facts.rescue_copies), 'copy', 'copies')} of a removed or replaced database",
            detail=listed(path.name for path in facts.rescue_copies),
            hint="If the current database lacks entries, stop the daemon and `agentctx restore` the copy; "
            "else remove it.",
        )
    return passed(f"{facts.database} is in place")
