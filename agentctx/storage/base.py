"""The daemon's storage: the protocol that every engine implements.

SQLite is the embedded engine; every method is one transaction, and all times are milliseconds since the
epoch, UTC. An engine upholds the invariant at every instant, even after a crash: for every enabled space,
every live chunk has its vector or a pending job, and no vector lacks its live chunk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentctx.config.schema import Settings
from agentctx.errors import StorageFailed
from agentctx.storage.audit import AuditStorage
from agentctx.storage.backups import Backup
from agentctx.storage.copy_storage import CopyStorage
from agentctx.storage.entries import EntryStorage
from agentctx.storage.injections import InjectionStorage
from agentctx.storage.jobs import OutboxStorage
from agentctx.storage.proofs import ProofStorage
from agentctx.storage.quotas import Usage
from agentctx.storage.records import StorageStats
from agentctx.storage.scrub import ScrubStorage
from agentctx.storage.search import SearchStorage
from agentctx.storage.spaces import SpaceStorage
from agentctx.storage.trust_storage import TrustStorage
from agentctx.storage.upkeep import UpkeepStorage
from agentctx.times import Clock


class DatabaseFile(Protocol):
    """The files of an embedded database: backed up, and removed, moved or replaced by other programs."""

    async def look(self) -> None:
        """Check whether the database files were removed, moved or replaced."""

    async def back_up(self, target: Path) -> Backup:
        """Write a verified copy of the database into a file, including saves made meanwhile.

        An existing file is replaced atomically at the end. Only one backup or check runs at a time.

        Raises:
            InvalidInput: the path is not absolute, or the file exists and is not a backup.
            StorageFull, StorageFailed: the backup failed; an existing file is unchanged.
        """


@dataclass(frozen=True, slots=True)
class Chore:
    """Background work that one engine needs, such as building indexes."""

    name: str
    step: Callable[[], Awaitable[bool]]
    """Do a part of it; return False if there is nothing to do. Raises `DeadlineExceeded`, `StorageFailed`."""


class Storage(Protocol):
    """All storage of the daemon, one part per concept. Depend only on the part you need."""

    clock: Clock
    """The clock that decides when entries expire, common to all daemons that share the database."""
    entries: EntryStorage
    search: SearchStorage
    jobs: OutboxStorage
    spaces: SpaceStorage
    trust: TrustStorage
    audit: AuditStorage
    injections: InjectionStorage
    upkeep: UpkeepStorage
    scrub: ScrubStorage
    proofs: ProofStorage
    copying: CopyStorage
    chores: Sequence[Chore]
    file: DatabaseFile | None
    """None for a database on a server."""

    @property
    def fault(self) -> StorageFailed | None:
        """Why the database is not writable now, if it is not; the engine retries automatically.

        `DatabaseMissing` is final: its files are gone, and a copy holds all that was saved.
        """

    async def probe(self) -> None:
        """Wait until the writer has finished its current work. Raises the errors of a write."""

    async def stats(self) -> StorageStats: ...

    async def usage(self, principal: int) -> Usage:
        """Return the usage of all versions saved by this uid. Raises `DeadlineExceeded`, `StorageFailed`."""

    async def secret(self) -> bytes:
        """Return the installation's secret: 32 random bytes, created once."""

    async def close(self) -> None:
        """Finish the accepted work and close every connection. Idempotent."""


@dataclass(frozen=True, slots=True)
class ServerSchema:
    """Versions of the program's migrations, and of those that the database lacked."""

    known: tuple[int, ...]
    missing: tuple[int, ...]


class ServerEngine(Protocol):
    """An engine in a package of its own: a module with these functions, for databases at `storage.url`.

    The package names the module as an entry point of the group `agentctx.storage`, under its URLs' scheme.
    """

    async def open_storage(self, settings: Settings, *, daemon: str, clock: Clock, migrates: bool) -> Storage:
        """Connect as the daemon with this id. Raises like `opening.open_storage`."""

    async def update_schema(self, settings: Settings, *, applies: bool) -> ServerSchema:
        """Apply the missing migrations, or, without `applies`, only list them. Raises like `open_storage`."""

    def migrate_to(self, settings: Settings, to: str, *, dry_run: bool, as_json: bool) -> bool:
        """Copy the memory from a file to the URL `to`, or from a server to the file, and print a report.

        Return whether the copy is complete. Raises `InvalidInput` for two servers, and like `open_storage`.
        """
