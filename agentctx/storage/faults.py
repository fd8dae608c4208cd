"""Counts reads of damaged data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from agentctx.errors import StorageCorrupt

T = TypeVar("T")

log = structlog.get_logger("agentctx.storage")

DAMAGED_VECTOR: Final = "vector of chunk"
MAX_KNOWN: Final = 1_000
"""Maximum number of damaged entries that are logged."""


class Faults:
    """Damage found by checksums since startup. Called from the threads of all connections."""

    def __init__(self) -> None:
        self.count = 0
        """Number of reads of a damaged entry or vector."""
        self._logged: dict[str, None] = {}

    def record(self, what: str, entry_id: object) -> None:
        """Count a fault, and log it once per entry."""
        self.count += 1
        name = f"{what} {entry_id}"
        if name not in self._logged and len(self._logged) < MAX_KNOWN:
            self._logged[name] = None
            log.error("entry_damaged", what=what, entry=str(entry_id)[:64], hint="Run `agentctx doctor`.")

    def undamaged(self, rows: Iterable[Any], read: Callable[[Any], T], entry_id: int | str) -> list[T]:
        """Return what `read` makes of the rows, without the damaged ones, which it records by this column."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except StorageCorrupt:
                self.record("entry", row[entry_id])
        return found


class ReadContext(NamedTuple):
    """The time of a read, by which entries have expired, and where it records the damage that it finds."""

    now: int
    faults: Faults
