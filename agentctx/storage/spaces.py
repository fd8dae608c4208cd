"""Storage of spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import PendingTotal, Space


class SpaceStorage(Protocol):
    """Spaces and their jobs."""

    async def all(self) -> list[Space]:
        """Return all spaces, newest first. Retired ones no longer have vectors."""
        ...

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        """Open a single fingerprint with `open_all`."""
        ...

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        """Find or create the newest space of each fingerprint, enable these and disable all others.

        From then on, every live chunk without a vector gets a job for each of them.

        The first space of a database is active; one beside an active space is building.
        """
        ...

    async def renew(self, space_id: int) -> Space:
        """Create a new generation of a space whose model changed silently, building with all jobs pending."""
        ...

    async def prepare(self, space_id: int, canary: Vectors) -> Space:
        """Store the canary's vector, set the dimension accordingly and create the table of vectors."""
        ...

    async def activate(self, space_id: int, *, max_pending: int | None = None) -> Space:
        """Switch searches to this space, in one step.

        The previous one is kept if it is enabled: it keeps getting every save, and can be activated again.
        All spaces that are not enabled are retired with their vectors and jobs.

        Raises:
            Conflict: more than `max_pending` jobs are pending, or a chunk has neither vector nor job.
        """
        ...

    async def retire_former(self) -> list[int]:
        """Retire every space that was searched before, and every one that is not enabled; return their ids.

        The active space stays, and one that is being built.
        """
        ...

    async def approve(self, space_id: int) -> None:
        """Record that the cost of filling the space was approved."""
        ...

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        """Record the comparison of the space with the active one."""
        ...

    async def disable_all(self) -> None:
        """Disable all spaces and delete their jobs (`provider = "none"`)."""
        ...

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        """Create jobs for live chunks that have neither vector nor job in the space; return how many."""
        ...

    async def pending(self, space_id: int) -> int:
        """Return the number of pending jobs of the space."""
        ...

    async def total_pending(self, space_id: int) -> PendingTotal:
        """Return the pending jobs of the space, with the size of their texts."""
        ...
