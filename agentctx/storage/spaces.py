"""What an engine does with spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentctx.embedding_providers.base import Vectors
from agentctx.storage.records import Owed, Space


class SpaceStorage(Protocol):
    """Spaces and their jobs."""

    async def all(self) -> list[Space]:
        """Every space, newest first. Retired ones have no vectors any more."""
        ...

    async def open(self, fingerprint: Mapping[str, str | int]) -> Space:
        """`open_all` of this one."""
        ...

    async def open_all(self, fingerprints: Sequence[Mapping[str, str | int]]) -> list[Space]:
        """Find or make the newest space of each fingerprint, enable these and disable every other one.

        Every live chunk without a vector gets a job for each of them from then on.

        The first space of a database is active; one beside an active space is building.
        """
        ...

    async def renew(self, space_id: int) -> Space:
        """A new generation of a space whose model changed silently; it is building, all jobs pending."""
        ...

    async def prepare(self, space_id: int, canary: Vectors) -> Space:
        """Record the canary's vector, fix the dimension by it and make the table of vectors."""
        ...

    async def activate(self, space_id: int, *, most_owed: int | None = None) -> Space:
        """Make a space the one that is searched, in one step.

        The one before is kept if it is enabled: it keeps getting every save, and can be activated
        again. All that are not enabled are retired with their vectors and jobs.

        Raises:
            Conflict: `most_owed` is given, and more jobs are pending, or chunks have neither vector nor job.
        """
        ...

    async def retire_former(self) -> list[int]:
        """Retire every space that was searched before, and every one that is not enabled; returns their ids.

        The active one stays, and one that is being built.
        """
        ...

    async def approve(self, space_id: int) -> None:
        """Remember that the cost of filling the space was approved."""
        ...

    async def record_comparison(self, space_id: int, comparison: Mapping[str, Any]) -> None:
        """Remember how the space compared with the active one."""
        ...

    async def disable_all(self) -> None:
        """Owe no space anything (`provider = "none"`)."""
        ...

    async def backfill(self, space_id: int, *, limit: int = 1_000) -> int:
        """Make jobs for live chunks that have neither vector nor job in the space; returns how many."""
        ...

    async def owed(self, space_id: int) -> int:
        """Pending jobs of the space."""
        ...

    async def owed_in_all(self, space_id: int) -> Owed:
        """The pending jobs of the space, with their size."""
        ...
