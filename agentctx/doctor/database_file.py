"""Checks that the database is in place, and not only a copy that a daemon wrote when it was removed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentctx.config.paths import served_dir
from agentctx.doctor.check import Finding, check, failed, passed, skipped
from agentctx.doctor.contexts import Machine
from agentctx.errors import DatabaseMissing
from agentctx.storage.offline import rescue_copies, restore_command


def served_note(database: Path) -> Path:
    """Return the file that says that a daemon has served from this path; it may be on another disk."""
    digest = hashlib.sha256(str(database.absolute()).encode(errors="surrogateescape")).hexdigest()
    return served_dir() / digest[:16]


def missing(database: Path) -> DatabaseMissing | None:
    """Return why a daemon may not start with this database, or None. Blocks. Raises `OSError`.

    An empty file counts as missing: it would become an empty database.
    """
    if copies := rescue_copies(database):
        return DatabaseMissing(
            f"{database} was removed or replaced while open; all that was saved is in {copies[-1].name}.",
            hint=f"Run `{restore_command(copies[-1])}`. To go on without the copy, move it elsewhere.",
        )
    if database.exists() and database.stat().st_size:
        return None
    note = served_note(database)
    # Root examines a service's database: the note is in the service's second state folder.
    of_service = database.parent.with_name(f"{database.parent.name}-served") / note.name
    if not note.exists() and not (note := of_service).exists():
        return None
    return DatabaseMissing(
        f"{database} is missing, and a daemon has served from it.",
        hint="Mount its disk, move it back, or run `agentctx restore BACKUP`; if it is on a server, set "
        f"storage.url. To start with an empty memory, remove {note}.",
    )


@check(Machine, "files.database")
def check_database(machine: Machine) -> Finding:
    if problem := missing(machine.database):
        return failed(problem.message, hint=problem.hint)
    if not machine.database.exists():
        return skipped("nothing is saved yet")
    return passed(f"{machine.database} is in place")
