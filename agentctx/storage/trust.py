"""Provenance of entries, and quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from agentctx.storage.records import Job
from agentctx.wire import Origin, Quarantine, Trust


@dataclass(frozen=True, slots=True)
class Provenance:
    """Additional facts about an entry, stored outside of its row."""

    flags: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    """Ids of entries, whether they still exist or not."""
    quarantined: Quarantine | None = None
    revocation: int | None = None


NOTHING_KNOWN: Final = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The criteria of a source: all given ones must match; None matches everything.

    `path` is the `source` of the entry: this file, or everything below this folder. `since <= updated <
    until`, in milliseconds.
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
        """The given criteria, by name."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Revoked:
    """The entries of a revocation: of the source, and derived from these, directly or not.

    `revocation` is None if nothing was done. `held_before` of them were already in quarantine.
    """

    revocation: int | None
    entries: int
    derived: int
    held_before: int


@dataclass(frozen=True, slots=True)
class Undone:
    """What undoing a revocation released, and what stays in quarantine for another reason.

    `revocations` are the others that cover some of what stays; the rest was flagged.
    """

    released: int
    still_quarantined: int = 0
    revocations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a step: rows examined, entries erased, and jobs created."""

    rows: int
    erased: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()


class TrustStorage(Protocol):
    """Provenance and quarantine."""

    async def provenance(self, entries: Sequence[str]) -> Mapping[str, Provenance]:
        """Return the provenance of each entry, if anything is known."""
        ...

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> Revoked:
        """Quarantine every live entry of a source and everything derived from them, in one transaction.

        `dry_run` only counts.
        """
        ...

    async def quarantined(self) -> int:
        """Return the number of entries in quarantine."""
        ...

    async def release(self, entry: str) -> bool:
        """Release an entry, whatever hid it; return False if nothing did."""
        ...

    async def undo_revocation(self, revocation_id: int) -> Undone:
        """Release what only this revocation keeps in quarantine.

        Raises:
            NotFound: the revocation does not exist.
        """
        ...

    async def forget_revoked(self, revocation_id: int) -> int:
        """Erase all entries of a revocation, soon; return how many. Raises `NotFound`."""
        ...

    async def settle(self, *, embed: bool, limit: int = 50) -> Settled:
        """Remove quarantined entries from the indexes, put released ones back, erase; up to `limit`."""
        ...
