"""What an engine knows of its files while it is open."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from agentctx.errors import StorageFailed


class FileStorage(Protocol):
    """The files of the database, which others can remove or move."""

    @property
    def fault(self) -> StorageFailed | None:
        """Why nothing can be written now; the engine retries automatically."""
        ...

    @property
    def moved_to(self) -> Path | None:
        """Where the database is, if it was moved away from its path; nothing is saved then."""
        ...

    async def look(self) -> None:
        """Notice when the files of the database were removed, replaced or moved."""
        ...

    async def keep_reserve(self) -> None:
        """Fill the space that is kept for forgetting, if some of it was given up and there is room."""
        ...
