"""Inspect a data folder: its entries by id, and everything that is wrong with it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentctx.storage.base import Storage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Census, QueueDepth
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.wire.protocol import DEFAULT_NAMESPACE
from tests.durability.ledger import Ledger, Version, broken_promises
from tests.durability.words import unfound

PAGE = 1_000


@dataclass(frozen=True)
class Inspection:
    """An inspection of a database that no other process has open."""

    stored: dict[str, Version]
    """Includes entries in quarantine."""
    quarantined: frozenset[str]
    problems: tuple[str, ...]
    census: Census
    depth: QueueDepth

    def violations(self, ledgers: Iterable[Ledger]) -> list[str]:
        """Return what is wrong internally and compared with what was acknowledged."""
        return [*self.problems, *broken_promises(ledgers, self.stored, self.quarantined)]


def inspect(data_dir: Path) -> Inspection:
    """Open the database as the next daemon would, and inspect everything. Blocks."""
    return asyncio.run(_inspect(data_dir / DATABASE_NAME))


def inspect_copy(data_dir: Path, copy: Path) -> Inspection:
    """Inspect a copy, so that the folder stays as the crash left it.

    No process may have the database open: reading its files would drop that process's locks.
    """
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data_dir, copy)
    return inspect(copy)


async def _inspect(path: Path) -> Inspection:
    storage = await SqliteStorage.open(path, readers=1)
    try:
        return await examine(storage)
    finally:
        await storage.close()


async def examine(storage: Storage) -> Inspection:
    """Inspect everything in an open database; saves may continue elsewhere."""
    while (await storage.trust.settle(embed=True)).rows:
        pass
    census = await storage.upkeep.census()
    problems = [f"integrity: {line}" for line in await storage.upkeep.check_integrity()]
    if words := await storage.upkeep.check_words():
        problems.append(f"words: {words}")
    problems += [
        f"vectors of space {fault.space}: {fault.problem}" for fault in await storage.upkeep.check_vectors()
    ]
    problems += [f"damaged: {each.what} of {each.entry}" for each in await storage.scrub.check_all()]
    problems += [f"audit: {fault.problem}" for fault in (await storage.audit.verify()).listed]
    if census.violations:
        problems.append(f"census: {census}")
    stored = await _entries(storage)
    known = await storage.trust.provenance(list(stored))
    quarantined = frozenset(entry for entry, each in known.items() if each.quarantined)
    problems += await _shown(storage, quarantined)
    shown = {entry: each.content for entry, each in stored.items() if entry not in quarantined}
    problems += await unfound(storage, shown)
    return Inspection(stored, quarantined, tuple(problems), census, await storage.jobs.depth())


async def _shown(storage: Storage, quarantined: frozenset[str]) -> list[str]:
    """Return the entries in quarantine that an answer could contain."""
    before: str | None = None
    shown: set[str] = set()
    while True:
        page, before = await storage.entries.list_entries(
            Filter(namespace=DEFAULT_NAMESPACE), limit=PAGE, before=before
        )
        shown |= quarantined & {entry.id for entry in page}
        if before is None:
            return [f"in quarantine, and shown: {entry}" for entry in sorted(shown)]


async def _entries(storage: Storage) -> dict[str, Version]:
    found: dict[str, Version] = {}
    before: str | None = None
    while True:
        page, before = await storage.entries.list_entries(
            Filter(namespace=DEFAULT_NAMESPACE, with_quarantined=True), limit=PAGE, before=before
        )
        found |= {entry.id: Version(entry.version, entry.content) for entry in page}
        if before is None:
            return found
