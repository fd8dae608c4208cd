"""Where entries come from, and which of them no answer may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from agentctx.storage.records import Job
from agentctx.wire import Origin, Quarantine, Trust


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is known of an entry beside its row."""

    flags: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    """Ids of entries, there or not."""
    quarantined: Quarantine | None = None
    revocation: int | None = None


NOTHING_KNOWN: Final = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which entries come from a source: those that meet every condition. None asks for nothing.

    `path` is the `source` of the entry: that file, or everything below that folder.
    `since <= updated < until`, in milliseconds.
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
        """The conditions there are, by name."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Revoked:
    """What a revocation holds back: entries of the source, and those made of them, directly or not.

    `revocation` is None when nothing was done. `held_before` of them were in no answer already.
    """

    revocation: int | None
    entries: int
    derived: int
    held_before: int


@dataclass(frozen=True, slots=True)
class Undone:
    """What undoing a revocation released, and what stays in quarantine for another reason.

    `revocations` are the others that hold back some of what stays; the rest of it was flagged.
    """

    released: int
    still_quarantined: int = 0
    revocations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """What a step did: rows looked at, entries erased, and the embeddings that are pending again."""

    rows: int
    erased: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()


class TrustStorage(Protocol):
    """Provenance and quarantine."""

    async def provenance(self, entries: Sequence[str]) -> Mapping[str, Provenance]:
        """Of each entry of which something is known."""
        ...

    async def revoke(self, source: Source, *, principal: int, dry_run: bool) -> Revoked:
        """Hold back every live entry of a source and all that is made of them; at once, in one transaction.

        `dry_run` only counts.
        """
        ...

    async def quarantined(self) -> int:
        """How many entries are in quarantine."""
        ...

    async def release(self, entry: str) -> bool:
        """Let an entry be found again, whatever hid it; False when nothing did."""
        ...

    async def undo_revocation(self, revocation_id: int) -> Undone:
        """Release what only this revocation keeps in quarantine.

        Raises:
            NotFound: no such revocation.
        """
        ...

    async def forget_revoked(self, revocation_id: int) -> int:
        """Have all that a revocation holds back erased, soon; returns how many. Raises `NotFound`."""
        ...

    async def settle(self, *, owed: bool, limit: int = 50) -> Settled:
        """Remove quarantined entries from the indexes, put released ones back, erase; up to `limit`."""
        ...
