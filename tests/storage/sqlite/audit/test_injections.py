from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.injections import CandidateFigures, InjectionIds, Receipt
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.drafts import ManualClock, draft

FULL = Receipt(
    id="01k000000000",
    created=1_000,
    namespaces=("team", "user:ann"),
    session="s",
    agent="planner",
    principal=1_000,
    restarted=True,
    position="system",
    question_hash="ab",
    question="why?",
    gate=0.25,
    degraded="down",
    rerank="late",
    candidates=(
        CandidateFigures("e1", 7, 1.5, 0.25, 0.75, "injected", None, 1),
        CandidateFigures("e2", 8, None, None, 0.5, "duplicate", "e1"),
    ),
    fates={"injected": 1, "duplicate": 1},
    budget_tokens=1_500,
    tokens=20,
    milliseconds=2.5,
    block_hash="cd",
)
BARE = replace(
    FULL,
    id="01k000000001",
    principal=None,
    question=None,
    gate=None,
    degraded=None,
    rerank=None,
    candidates=(),
    fates={},
    tokens=0,
    block_hash=None,
)


def numbered(count: int) -> list[Receipt]:
    return [replace(BARE, id=f"{number:012}", created=number) for number in range(count)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    yield opened
    await opened.close()


async def test_a_receipt_is_read_back_unchanged(storage: SqliteStorage) -> None:
    await storage.injections.add([FULL, BARE])
    assert await storage.injections.find(FULL.id) == FULL
    assert await storage.injections.find(BARE.id) == BARE
    assert await storage.injections.find("other") is None
    assert await storage.injections.last(5) == [BARE, FULL]


async def test_writing_a_receipt_twice_stores_it_once(storage: SqliteStorage) -> None:
    await storage.injections.add([FULL])
    await storage.injections.add([replace(FULL, tokens=21), BARE])
    assert await storage.injections.last(5) == [BARE, FULL]


async def test_receipts_that_may_not_be_shown_are_skipped(storage: SqliteStorage) -> None:
    rows = [replace(each, principal=number % 3) for number, each in enumerate(numbered(10))]
    await storage.injections.add(rows)
    found = await storage.injections.last(2, lambda _, principal: principal == 1)
    assert [receipt.created for receipt in found] == [7, 4]


async def test_old_and_excess_receipts_are_swept(storage: SqliteStorage) -> None:
    await storage.injections.add(numbered(10))
    assert await storage.injections.sweep(before=3, keep=100) == 3
    assert await storage.injections.sweep(before=3, keep=2) == 5
    assert await storage.injections.sweep(before=3, keep=2) == 0
    assert [receipt.created for receipt in await storage.injections.last(10)] == [9, 8]


async def test_an_inconsistent_row_is_refused(storage: SqliteStorage) -> None:
    with pytest.raises(StorageFailed):
        await storage.injections.add([replace(BARE, tokens=5)])


async def test_an_expired_entry_is_reported_until_it_is_swept(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    saved = await storage.entries.save(replace(draft("red"), expires=clock.now + 10), embed=False)
    assert not await storage.injections.expired(saved.id)
    clock.now += 10
    assert await storage.injections.expired(saved.id)
    await storage.entries.sweep()
    assert not await storage.injections.expired(saved.id)


def test_ids_from_different_processes_sort_by_time() -> None:
    earlier, later = InjectionIds().new(1_767_225_600_000), InjectionIds().new(1_767_225_600_001)
    assert earlier < later
    assert earlier[:8] == later[:8]
