"""Records of the provenance and quarantine of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentctx.storage.records import Job
from agentctx.storage.supersession import SupersededState
from agentctx.wire import FileSight, Origin, Quarantine, Trust


@dataclass(frozen=True, slots=True)
class RecordedState:
    """What the last look at an entry's file found: it could not be seen, or says something else."""

    state: FileSight
    reason: str
    since: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Additional facts about an entry, stored outside its row."""

    flags: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    """Ids of the source entries, which may no longer exist."""
    quarantined: Quarantine | None = None
    revocation: int | None = None
    file_state: RecordedState | None = None
    waiting: int | None = None
    """Since when it waits for a review."""
    superseded: SupersededState | None = None
    """What is in its place in answers."""

    @property
    def superseded_by(self) -> tuple[str, ...]:
        return self.superseded.by if self.superseded else ()


NO_PROVENANCE: Final = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The criteria of a source, all of which must match; None matches everything.

    `path` matches entries whose `source` is this file or lies below this folder. `since <= updated < until`,
    in milliseconds.
    """

    namespace: str | None = None
    agent: str | None = None
    session: str | None = None
    principal: int | None = None
    origin: Origin | None = None
    trust: Trust | None = None
    path: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def criteria(self) -> dict[str, str | int]:
        """The criteria that are set, by name."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RevocationResult:
    """The numbers of entries revoked: from the source, and derived from those, directly or indirectly.

    `revocation` is None if nothing was done. `held_before` entries were already in quarantine.
    """

    revocation: int | None
    entries: int
    derived: int
    held_before: int


@dataclass(frozen=True, slots=True)
class UndoneRevocation:
    """The numbers of entries released by undoing a revocation, and of those still in quarantine.

    `revocations` are the other ones that cover some of these; the rest was flagged.
    """

    released: int
    still_quarantined: int = 0
    revocations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SettledRows:
    """The result of a step: the number of rows processed, entries erased and jobs created."""

    rows: int
    erased: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()
