"""The service's storage: what it keeps and what an engine must be able to do.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, also after a crash: for every enabled space,
every live chunk has its vector or a job that owes it, and no vector lacks its live chunk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from agentctx.errors import StorageFailed
from agentctx.storage.audit import AuditStorage
from agentctx.storage.backups import Backup
from agentctx.storage.care import ScrubStorage, StorageCare
from agentctx.storage.entries import EntryStorage
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.proofs import ProofStorage, SlotStorage
from agentctx.storage.records import StorageStats
from agentctx.storage.search import SearchStorage
from agentctx.storage.spaces import SpaceStorage
from agentctx.storage.trust import TrustStorage


class Storage(EntryStorage, SearchStorage, OutboxStorage, SpaceStorage, StorageCare, TrustStorage, Protocol):
    """Everything the service keeps."""

    @property
    def injections(self) -> InjectionStorage: ...

    @property
    def scrub(self) -> ScrubStorage: ...

    @property
    def slots(self) -> SlotStorage: ...

    @property
    def proofs(self) -> ProofStorage: ...

    @property
    def write_fault(self) -> StorageFailed | None:
        """Why nothing can be written at present; the engine looks by itself for when it can again."""
        ...

    @property
    def audit(self) -> AuditStorage: ...

    async def backup(self, target: Path) -> Backup:
        """Write a verified copy of everything into a file; what is saved until it is written is in it.

        A file that was there is replaced at the end, in one step. One backup or check runs at a time.

        Raises:
            InvalidInput: no absolute path, or a file that is there and is no backup.
            StorageFull, StorageFailed: what was there stays.
        """
        ...

    async def turn(self) -> None:
        """Return when the writer has come around to it. Raises as a write."""
        ...

    async def stats(self) -> StorageStats: ...

    async def secret(self) -> bytes:
        """32 random bytes, made once for the installation."""
        ...

    async def close(self) -> None: ...
