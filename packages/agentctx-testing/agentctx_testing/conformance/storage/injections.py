"""Receipts of injections are stored, listed and swept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.base import Storage
from agentctx.storage.injections import CandidateFigures, Receipt
from agentctx_testing.drafts import ManualClock, draft

FULL = Receipt(
    id="01k000000000",
    created=1_000,
    namespaces=("team", "user:ann"),
    session="s",
    conversation="c",
    agent="planner",
    principal=1_000,
    restarted=True,
    position="system",
    question_hash="ab",
    question="why?",
    gate=0.25,
    degraded="down",
    rerank="late",
    judge="late",
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


class InjectionsConformance:
    async def test_a_receipt_is_read_back_unchanged(self, storage: Storage) -> None:
        await storage.injections.add([FULL, BARE])
        assert await storage.injections.find(FULL.id) == FULL
        assert await storage.injections.find(BARE.id) == BARE
        assert await storage.injections.find("other") is None
        assert await storage.injections.last(5) == [BARE, FULL]

    async def test_writing_a_receipt_twice_stores_it_once(self, storage: Storage) -> None:
        await storage.injections.add([FULL])
        await storage.injections.add([replace(FULL, tokens=21), BARE])
        assert await storage.injections.last(5) == [BARE, FULL]

    async def test_receipts_that_may_not_be_shown_are_skipped(self, storage: Storage) -> None:
        rows = [replace(each, principal=number % 3) for number, each in enumerate(numbered(10))]
        await storage.injections.add(rows)
        found = await storage.injections.last(2, lambda _, principal: principal == 1)
        assert [receipt.created for receipt in found] == [7, 4]

    async def test_the_receipts_that_name_an_entry_are_found(self, storage: Storage) -> None:
        await storage.injections.add([FULL, *numbered(3)])
        assert await storage.injections.last(5, entry="e1") == [FULL]
        assert await storage.injections.last(5, entry="e2") == [FULL]
        for other in ("e", "e%", "injected", '"'):
            assert await storage.injections.last(5, entry=other) == []
        assert await storage.injections.last(5, lambda *_: False, "e1") == []

    async def test_a_conversation_ends_at_its_restart(self, storage: Storage) -> None:
        rows = [replace(each, restarted=each.created == 2) for each in numbered(5)]
        await storage.injections.add([*rows, replace(FULL, conversation="other")])
        found = await storage.injections.of_conversation("c", None)
        assert [receipt.created for receipt in found] == [4, 3, 2]
        assert await storage.injections.of_conversation("c", 7) == []

    async def test_old_and_excess_receipts_are_swept(self, storage: Storage) -> None:
        await storage.injections.add(numbered(10))
        assert await storage.injections.sweep(before=3, keep=100) == 3
        assert await storage.injections.sweep(before=3, keep=2) == 5
        assert await storage.injections.sweep(before=3, keep=2) == 0
        assert [receipt.created for receipt in await storage.injections.last(10)] == [9, 8]

    async def test_an_inconsistent_row_is_refused(self, storage: Storage) -> None:
        with pytest.raises(StorageFailed):
            await storage.injections.add([replace(BARE, tokens=5)])

    async def test_an_expired_entry_is_reported_until_it_is_swept(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        saved = await storage.entries.save(replace(draft("red"), expires=clock.now + 10), embed=False)
        assert not await storage.injections.expired(saved.id)
        clock.now += 10
        assert await storage.injections.expired(saved.id)
        await storage.entries.sweep()
        assert not await storage.injections.expired(saved.id)
