"""Exports of damaged databases, and imports that replace expired entries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import InvalidInput
from agentctx.storage.entries import ExportSelection
from agentctx.storage.records import Change, ImportOptions
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_testing.drafts import START_MS, ManualClock, draft, keyless

OTHER_ID = "018f0000-0000-7000-8000-000000000001"
DAMAGES = {
    "other text": "content = 'pay 900 euros to Bob'",
    "not UTF-8": "content = CAST(x'F0' || substr(CAST(content AS BLOB), 2) AS TEXT)",
    "no JSON": "attributes = ';' || substr(attributes, 2)",
}


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()


async def damage_entry(storage: SqliteStorage, change: str, entry_id: str, version: int = 1) -> None:
    def apply(conn: Any) -> None:
        conn.execute("PRAGMA ignore_check_constraints = 1")
        conn.execute(f"UPDATE entries SET {change} WHERE id = ? AND version = ?", (entry_id, version))  # noqa: S608 - constants above

    await storage.db.writer.run(apply)


async def export_all(storage: SqliteStorage, limit: int = 10, **selected: Any) -> dict[str, list[int]]:
    """Export all pages; return the ids, each with its older versions."""
    found: dict[str, list[int]] = {}
    after: int | None = 0
    while after is not None:
        page = await storage.entries.export_page(ExportSelection(**selected), after=after, limit=limit)
        found.update({each.entry.id: [old.version for old in each.versions] for each in page.entries})
        after = page.next
    return found


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("limit", [1, 10])
async def test_an_export_skips_damaged_entries_and_counts_them(
    storage: SqliteStorage, damage: str, limit: int
) -> None:
    saved = [await storage.entries.save(keyless(f"pay 10{n} euros to Bob"), embed=False) for n in range(3)]
    await damage_entry(storage, DAMAGES[damage], saved[1].id)
    assert list(await export_all(storage, limit)) == [saved[0].id, saved[2].id]
    assert storage.scrub.failures > 0


async def test_an_export_skips_a_damaged_older_version(storage: SqliteStorage) -> None:
    for number in range(3):
        saved = await storage.entries.save(draft(f"version {number}"), embed=False)
    await damage_entry(storage, DAMAGES["other text"], saved.id, version=2)
    assert await export_all(storage, with_history=True) == {saved.id: [1]}


@pytest.mark.parametrize("is_same_id", [True, False])
async def test_an_import_replaces_an_expired_entry(
    storage: SqliteStorage, clock: ManualClock, *, is_same_id: bool
) -> None:
    expired = await storage.entries.save(draft(expires=START_MS + 1_000), embed=False)
    clock.now += 5_000
    erased: list[str] = []
    storage.entries.on_erased(erased.extend)
    made = await storage.entries.import_entry(
        draft("new text", key="other" if is_same_id else "deploy"),
        ImportOptions(expired.id if is_same_id else OTHER_ID, START_MS, clock.now),
        embed=False,
    )
    assert (made.change, made.version, made.erased) == (Change.CREATED, 1, (expired.id,))
    assert erased == [expired.id]
    entry = await storage.entries.get(made.id)
    assert entry is not None
    assert entry.content == "new text"
    assert (await storage.upkeep.census()).entries == 1


async def test_a_refused_import_erases_nothing(storage: SqliteStorage, clock: ManualClock) -> None:
    await storage.entries.save(draft(expires=START_MS + 1_000), embed=False)
    living = await storage.entries.save(draft(key="other"), embed=False)
    clock.now += 5_000
    with pytest.raises(InvalidInput):
        await storage.entries.import_entry(
            draft("new"), ImportOptions(living.id, START_MS, clock.now), embed=False
        )
    assert (await storage.upkeep.census()).entries == 2


async def test_an_import_updates_the_expiry(storage: SqliteStorage, clock: ManualClock) -> None:
    saved = await storage.entries.save(draft(), embed=False)
    until = START_MS + 60_000
    made = await storage.entries.import_entry(
        draft(expires=until), ImportOptions(saved.id, START_MS, START_MS + 1), embed=False
    )
    assert made.change is Change.ATTRIBUTES
    entry = await storage.entries.get(saved.id)
    assert entry is not None
    assert (entry.expires, entry.updated) == (until, START_MS + 1)


async def test_update_times_increase_even_if_the_clock_goes_back(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    saved = await storage.entries.save(draft("one"), embed=False)
    clock.now -= 1_000_000
    await storage.entries.save(draft("two"), embed=False)
    await storage.entries.save(draft("two", labels="deploy", attributes={"tags": []}), embed=False)
    versions, _ = await storage.entries.history(saved.id, limit=10)
    assert [version.updated for version in versions] == [START_MS + 2, START_MS + 1, START_MS]
    assert {version.created for version in versions} == {START_MS}
