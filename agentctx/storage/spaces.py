"""Storage of spaces, and the rules about them that every database follows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from agentctx.errors import Conflict
from agentctx.storage.records import PendingTotal, Space, SpaceState
from agentctx.storage.vectors import Vectors

LIVING = (SpaceState.BUILDING, SpaceState.ACTIVE, SpaceState.KEPT)


class SpaceStorage(Protocol):
    """Spaces and their jobs."""

    async def all(self) -> list[Space]:
        """Return all spaces, newest first. Retired spaces have no vectors."""

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        """Open the space of one fingerprint; see `open_all`."""

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        """Find or create the newest space of each fingerprint; enable these spaces and disable all others.

        From then on, each of them gets a job for every live chunk without a vector.

        The first space of a database is active; a new one beside an active space is building.
        """

    async def renew(self, space_id: int) -> Space:
        """Create the next generation of a space whose model changed silently, to be built from scratch."""

    async def prepare(self, space_id: int, canary: Vectors) -> Space:
        """Store the canary's vector, set the dimension accordingly and create the vector table."""

    async def activate(self, space_id: int, *, max_pending: int | None = None) -> Space:
        """Switch searches to this space atomically.

        The previous space is kept; if it is enabled, it still receives every save. Only earlier generations
        of this space are retired, and their vectors and jobs removed: nothing can use them again.

        Raises:
            Conflict: the space is retired, more than `max_pending` jobs are pending, or a chunk has neither
                vector nor job.
        """

    async def retire_former(self, answering: int) -> list[int]:
        """Retire every kept space and every space that is not enabled; return their ids.

        The active space and a space being built stay.

        Raises:
            Conflict: `answering`, the space of the model that is to answer, is not active.
        """

    async def approve(self, space_id: int) -> None:
        """Record that the cost of filling the space was approved."""

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        """Record the comparison of the space with the active space."""

    async def disable_all(self) -> None:
        """Disable all spaces and delete their jobs (`provider = "none"`)."""

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int | None:
        """Create jobs for live chunks that have neither vector nor job in the space; return how many.

        None if another daemon is doing it. If that daemon dies, another can continue a minute later.
        """

    async def pending(self, space_id: int) -> int:
        """Return the number of pending jobs of the space."""

    async def total_pending(self, space_id: int) -> PendingTotal:
        """Return the numbers of pending and buried jobs of the space, and the size of the pending texts."""


def fingerprint_text(fingerprint: Mapping[str, str | int]) -> str:
    """Return the fingerprint as stored: the same text for the same model."""
    return json.dumps(dict(fingerprint), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def former_spaces(living: Iterable[Space]) -> list[Space]:
    """Return the spaces that are neither active nor being built: kept ones, and those not enabled."""
    return [
        space
        for space in living
        if space.state is not SpaceState.ACTIVE and (space.state is SpaceState.KEPT or not space.enabled)
    ]


def superseded(space: Space, living: Iterable[Space]) -> list[Space]:
    """Return earlier generations of a space, from before its model changed under its name."""
    return [
        each
        for each in living
        if each.fingerprint == space.fingerprint and each.generation < space.generation
    ]


def require_state(space: Space, *states: SpaceState) -> None:
    """Raise `Conflict` unless the space is in one of the states."""
    if space.state not in states:
        raise Conflict(
            f"The configured model cannot do that: its space {space.id} is {space.state}, "
            f"not {' or '.join(states)}.",
            hint="`agentctx reembed --status` shows how far it is; a restart fills a retired space again.",
        )


def require_complete(space: Space, *, pending: int, max_pending: int, has_gaps: bool) -> None:
    """Refuse to search a space that lacks more than `max_pending` chunks, or will never get some.

    Raises:
        Conflict: the space is incomplete.
    """
    if not space.enabled or pending > max_pending or has_gaps:
        raise Conflict(
            f"Space {space.id} is incomplete: {pending} chunks are still to be embedded.",
            hint="`agentctx reembed` shows how far it is.",
        )
