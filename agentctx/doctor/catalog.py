"""All checks in the order of reports, and their selection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentctx.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Group:
    """Checks that are shown together."""

    name: str
    title: str
    checks: tuple[str, ...]


def _group(name: str, title: str, checks: str) -> Group:
    return Group(name, title, tuple(checks.split()))


MACHINE_GROUPS = (
    _group("program", "Program", "python.version sqlite.version sqlite.vec sqlite.fts5"),
    _group("config", "Configuration", "config.loads config.secrets"),
    _group(
        "files",
        "Files",
        "files.folder files.permissions files.database files.space files.reserve files.filesystem",
    ),
    _group("socket", "Socket", "socket.folder socket.file"),
    _group("daemon", "Daemon", "daemon.answers daemon.version daemon.last_start"),
    _group(
        "connections",
        "Connected agents",
        "connections.entries connections.program connections.socket connections.bridge",
    ),
)
"""Checks that the command runs from outside the daemon."""

INNER_GROUPS = (
    _group(
        "database",
        "Database",
        "database.opens database.schema database.integrity database.words database.vectors "
        "database.invariant database.scrub database.bookkeeping database.audit database.slots "
        "database.wal database.durability",
    ),
    _group(
        "running",
        "Running daemon",
        "running.memory running.loop running.writes running.captures running.context running.network",
    ),
    _group("backup", "Backups", "backup.age"),
    _group("queue", "Queue", "queue.backlog queue.buried queue.leases"),
    _group(
        "embedding",
        "Embedding/RAG",
        "embedding.provider embedding.key embedding.answers embedding.dimension embedding.space "
        "embedding.canary embedding.fingerprints embedding.self_retrieval embedding.language "
        "embedding.spending rag.settings rag.calibration rerank.answers",
    ),
)
"""Checks run by the process that has the database and the model: the daemon if it is running."""

GROUPS = MACHINE_GROUPS + INNER_GROUPS
CHECK_IDS = tuple(check for group in GROUPS for check in group.checks)
INNER_IDS = tuple(check for group in INNER_GROUPS for check in group.checks)

_GROUP_OF = {check: group.name for group in GROUPS for check in group.checks}


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
    wanted = _expanded(only) or set(CHECK_IDS)
    return tuple(check for check in CHECK_IDS if check in wanted - _expanded(skip))


def _expanded(names: Iterable[str]) -> set[str]:
    return {check for name in names for check in _checks_of(name)}


def _checks_of(name: str) -> tuple[str, ...]:
    if name in CHECK_IDS:
        return (name,)
    for group in GROUPS:
        if group.name == name:
            return group.checks
    groups = ", ".join(group.name for group in GROUPS)
    raise InvalidInput(
        f"Unknown check {name[:60]!r}.",
        hint=f"Groups: {groups}. Checks: {', '.join(CHECK_IDS)}.",
    )
