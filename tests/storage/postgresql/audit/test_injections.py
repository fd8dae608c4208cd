"""Receipts of injections in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.postgresql.engine import PostgresqlStorage
from tests.storage.sqlite.audit.test_injections import BARE, FULL, numbered


async def test_a_receipt_is_read_back_unchanged(storage: PostgresqlStorage) -> None:
    await storage.injections.add([FULL, BARE])
    assert await storage.injections.find(FULL.id) == FULL
    assert await storage.injections.find(BARE.id) == BARE
    assert await storage.injections.find("other") is None
    assert await storage.injections.last(5) == [BARE, FULL]


async def test_writing_a_receipt_twice_stores_it_once(storage: PostgresqlStorage) -> None:
    await storage.injections.add([FULL])
    await storage.injections.add([replace(FULL, tokens=21), BARE])
    assert await storage.injections.last(5) == [BARE, FULL]


async def test_receipts_that_may_not_be_shown_are_skipped(storage: PostgresqlStorage) -> None:
    rows = [replace(each, principal=number % 3) for number, each in enumerate(numbered(10))]
    await storage.injections.add(rows)
    found = await storage.injections.last(2, lambda _, principal: principal == 1)
    assert [receipt.created for receipt in found] == [7, 4]


async def test_a_conversation_ends_at_its_restart(storage: PostgresqlStorage) -> None:
    rows = [replace(each, restarted=each.created == 2) for each in numbered(5)]
    await storage.injections.add([*rows, replace(FULL, session="other")])
    found = await storage.injections.of_conversation("s", None)
    assert [receipt.created for receipt in found] == [4, 3, 2]
    assert await storage.injections.of_conversation("s", 7) == []


async def test_old_and_excess_receipts_are_swept(storage: PostgresqlStorage) -> None:
    await storage.injections.add(numbered(10))
    assert await storage.injections.sweep(before=3, keep=100) == 3
    assert await storage.injections.sweep(before=3, keep=2) == 5
    assert await storage.injections.sweep(before=3, keep=2) == 0
    assert [receipt.created for receipt in await storage.injections.last(10)] == [9, 8]


async def test_an_inconsistent_row_is_refused(storage: PostgresqlStorage) -> None:
    with pytest.raises(StorageFailed):
        await storage.injections.add([replace(BARE, tokens=5)])
