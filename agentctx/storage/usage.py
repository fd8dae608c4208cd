"""What one user has in the database."""

from __future__ import annotations

from typing import Protocol

from agentctx.access.quotas import Usage


class UsageStorage(Protocol):
    """What quotas ask for."""

    async def of(self, principal: int) -> Usage:
        """Of all versions that this uid saved. Raises `DeadlineExceeded`, `StorageFailed`."""
        ...
