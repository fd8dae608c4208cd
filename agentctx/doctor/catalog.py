"""All checks in the order of reports, and their selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentctx.errors import InvalidInput

_MACHINE: Final = {
    "program": "python.version sqlite.version sqlite.vec sqlite.fts5",
    "config": "config.loads config.secrets",
    "files": "files.folder files.permissions files.database files.space files.filesystem",
    "socket": "socket.folder socket.file",
    "daemon": "daemon.answers daemon.version daemon.last_start",
    "connections": "connections.entries connections.program connections.socket connections.bridge",
}
"""Groups of checks that the command runs from outside the daemon, with their ids."""
_INNER: Final = {
    "database": "database.opens database.schema database.integrity database.words database.vectors "
    "database.invariant database.scrub database.bookkeeping database.audit database.wal "
    "database.forgotten database.durability",
    "running": "running.memory running.loop running.writes running.captures running.context running.network",
    "backup": "backup.age",
    "queue": "queue.backlog queue.buried queue.leases",
    "embedding": "embedding.provider embedding.key embedding.answers embedding.dimension embedding.space "
    "embedding.canary embedding.fingerprints embedding.self_retrieval embedding.language embedding.spending "
    "rag.settings rag.calibration rerank.answers",
}
"""Groups of checks run by the process that has the database and the model: the daemon if it is running."""

GROUPS: Final = {name: tuple(ids.split()) for name, ids in (_MACHINE | _INNER).items()}
CHECK_IDS: Final = tuple(check for group in GROUPS.values() for check in group)
INNER_IDS: Final = tuple(check for group in _INNER for check in GROUPS[group])
_GROUP_OF: Final = {check: name for name, group in GROUPS.items() for check in group}


def group_of(check: str) -> str:
    """Return the group of a check; for one unknown to this version, the first part of its id."""
    return _GROUP_OF.get(check, check.partition(".")[0])


def select(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the selected checks in order. `only` and `skip` hold check ids and group names.

    Raises:
        InvalidInput: a name is neither; the hint lists all.
    """
    included = {check for name in only for check in _checks_of(name)} or set(CHECK_IDS)
    excluded = {check for name in skip for check in _checks_of(name)}
    return tuple(check for check in CHECK_IDS if check in included - excluded)


def _checks_of(name: str) -> tuple[str, ...]:
    if name in GROUPS:
        return GROUPS[name]
    if name in CHECK_IDS:
        return (name,)
    raise InvalidInput(
        f"Unknown check {name[:60]!r}.",
        hint=f"Groups: {', '.join(GROUPS)}. Checks: {', '.join(CHECK_IDS)}.",
    )
