"""All checks in the order of reports, and their selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from agentctx.errors import InvalidInput


class Group(NamedTuple):
    """Checks that are shown together."""

    name: str
    title: str
    checks: str
    """Their ids, separated by spaces."""


MACHINE_GROUPS: Final = (
    Group("program", "Program", "python.version sqlite.version sqlite.vec sqlite.fts5"),
    Group("config", "Configuration", "config.loads config.secrets"),
    Group(
        "files",
        "Files",
        "files.folder files.permissions files.database files.space files.reserve files.filesystem",
    ),
    Group("socket", "Socket", "socket.folder socket.file"),
    Group("daemon", "Daemon", "daemon.answers daemon.version daemon.last_start"),
    Group(
        "connections",
        "Connected agents",
        "connections.entries connections.program connections.socket connections.bridge",
    ),
)
"""Checks that the command runs from outside the daemon."""

INNER_GROUPS: Final = (
    Group(
        "database",
        "Database",
        "database.opens database.schema database.integrity database.words database.vectors "
        "database.invariant database.scrub database.bookkeeping database.audit database.slots "
        "database.wal database.durability",
    ),
    Group(
        "running",
        "Running daemon",
        "running.memory running.loop running.writes running.captures running.context running.network",
    ),
    Group("backup", "Backups", "backup.age"),
    Group("queue", "Queue", "queue.backlog queue.buried queue.leases"),
    Group(
        "embedding",
        "Embedding/RAG",
        "embedding.provider embedding.key embedding.answers embedding.dimension embedding.space "
        "embedding.canary embedding.fingerprints embedding.self_retrieval embedding.language "
        "embedding.spending rag.settings rag.calibration rerank.answers",
    ),
)
"""Checks run by the process that has the database and the model: the daemon if it is running."""

GROUPS: Final = MACHINE_GROUPS + INNER_GROUPS
CHECK_IDS: Final = tuple(check for group in GROUPS for check in group.checks.split())
INNER_IDS: Final = tuple(check for group in INNER_GROUPS for check in group.checks.split())

_GROUP_OF: Final = {check: group.name for group in GROUPS for check in group.checks.split()}


def group_of(check: str) -> str:
    """Return the group of a check; for one unknown to this version, the first part of its id."""
    return _GROUP_OF.get(check, check.partition(".")[0])


def position(check: str) -> int:
    """Return the position of a check in a report; checks unknown to this version come last."""
    return CHECK_IDS.index(check) if check in CHECK_IDS else len(CHECK_IDS)


def select(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the selected checks in order. `only` and `skip` hold check ids and group names.

    Raises:
        InvalidInput: a name is neither; the hint lists all.
    """
    included = {check for name in only for check in _checks_of(name)} or set(CHECK_IDS)
    excluded = {check for name in skip for check in _checks_of(name)}
    return tuple(check for check in CHECK_IDS if check in included - excluded)


def _checks_of(name: str) -> list[str]:
    known = {group.name: group.checks for group in GROUPS} | {check: check for check in CHECK_IDS}
    if name in known:
        return known[name].split()
    groups = ", ".join(group.name for group in GROUPS)
    raise InvalidInput(
        f"Unknown check {name[:60]!r}.",
        hint=f"Groups: {groups}. Checks: {', '.join(CHECK_IDS)}.",
    )
