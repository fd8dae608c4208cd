"""The service's storage: what it keeps and what an engine must be able to do.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, also after a crash: for every enabled space,
every live chunk has its vector or a pending job, and no vector lacks its live chunk.
"""

from __future__ import annotations

from typing import Protocol

from agentctx.storage.audit import AuditStorage
from agentctx.storage.backups import BackupStorage
from agentctx.storage.copying import CopyStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.files import FileStorage
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.proofs import ProofStorage, SlotStorage
from agentctx.storage.records import StorageStats
from agentctx.storage.search import SearchStorage
from agentctx.storage.spaces import SpaceStorage
from agentctx.storage.trust import TrustStorage
from agentctx.storage.upkeep import ScrubStorage, UpkeepStorage
from agentctx.storage.usage import UsageStorage


class Storage(Protocol):
    """Everything the service keeps, by concept. Take the part you need."""

    @property
    def entries(self) -> EntryStorage: ...

    @property
    def search(self) -> SearchStorage: ...

    @property
    def jobs(self) -> OutboxStorage: ...

    @property
    def spaces(self) -> SpaceStorage: ...

    @property
    def trust(self) -> TrustStorage: ...

    @property
    def audit(self) -> AuditStorage: ...

    @property
    def injections(self) -> InjectionStorage: ...

    @property
    def usage(self) -> UsageStorage: ...

    @property
    def upkeep(self) -> UpkeepStorage: ...

    @property
    def scrub(self) -> ScrubStorage: ...

    @property
    def slots(self) -> SlotStorage: ...

    @property
    def proofs(self) -> ProofStorage: ...

    @property
    def backups(self) -> BackupStorage: ...

    @property
    def files(self) -> FileStorage: ...

    @property
    def copying(self) -> CopyStorage: ...

    async def turn(self) -> None:
        """Return when the writer has come around to it. Raises as a write."""
        ...

    async def stats(self) -> StorageStats: ...

    async def secret(self) -> bytes:
        """32 random bytes, made once for the installation."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then close every connection. Idempotent."""
        ...
