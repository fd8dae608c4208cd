from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from agentctx.errors import StorageFailed
from agentctx.service.rag.candidate import Candidate, ConsideredCandidate
from agentctx.service.rag.question import Answer
from agentctx.service.rag.relevance import Gate
from agentctx.service.receipts import KEPT_CANDIDATES, MS_PER_DAY, ReceiptLog, make_receipt, question_hash
from agentctx.service.write_behind import BATCH
from agentctx.storage.injections import InjectionStorage, Receipt, Visible, everything
from agentctx_testing.drafts import ManualClock


class MemoryTable:
    """Receipts in memory; writes may fail or be held."""

    def __init__(self) -> None:
        self.rows: dict[str, Receipt] = {}
        self.writes: list[int] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.swept: list[tuple[int, int]] = []

    async def add(self, receipts: Sequence[Receipt]) -> None:
        await self.gate.wait()
        if self.error:
            raise self.error
        self.writes.append(len(receipts))
        self.rows |= {receipt.id: receipt for receipt in receipts}

    async def find(self, injection_id: str) -> Receipt | None:
        return self.rows.get(injection_id)

    async def last(self, limit: int, visible: Visible = everything, entry: str = "") -> list[Receipt]:
        newest = [] if entry else [self.rows[each] for each in sorted(self.rows, reverse=True)]
        return [each for each in newest if visible(each.namespaces, each.principal)][:limit]

    async def of_conversation(self, conversation: str, principal: int | None) -> list[Receipt]:
        return [
            each for each in self.rows.values() if (each.session, each.principal) == (conversation, principal)
        ]

    async def sweep(self, *, before: int, keep: int) -> int:
        self.swept.append((before, keep))
        return 0

    async def expired(self, entry_id: str) -> bool:
        return False


def log_of(table: MemoryTable, **changes: Any) -> ReceiptLog:
    return ReceiptLog(
        cast("InjectionStorage", table), **{"days": 7, "max_rows": 100, "clock": ManualClock(), **changes}
    )


def receipt(injection_id: str, context: Answer | None = None, **changes: Any) -> Receipt:
    fields = {
        "created": 1,
        "namespaces": ("default",),
        "restarted": False,
        "session": "",
        "conversation": "",
        "agent": "",
        "principal": 0,
        "position": "tail",
        "question_hash": "ab",
        "question": None,
        "budget_tokens": 9,
        "took_s": 0.0015,
    }
    return make_receipt(context or Answer(), **{"id": injection_id, **fields, **changes})


async def test_a_receipt_is_readable_immediately_and_stored_soon() -> None:
    table = MemoryTable()
    lingered = asyncio.Event()

    async def linger(_: float) -> None:
        lingered.set()

    log = log_of(table, linger=linger)
    task = asyncio.create_task(log.run())
    log.add(receipt("a"))
    log.add(receipt("b"))
    assert (await log.find("a")) == receipt("a")
    assert [each.id for each in await log.last(5)] == ["b", "a"]
    assert await log.last(5, entry="e1") == []
    await lingered.wait()
    await log.flush()
    task.cancel()
    assert (list(table.rows), table.writes) == (["a", "b"], [2])
    assert (await log.find("a")) == receipt("a")
    assert [each.id for each in await log.last(1)] == ["b"]
    assert await log.find("c") is None


async def test_receipts_are_written_in_batches() -> None:
    table = MemoryTable()
    log = log_of(table)
    for number in range(BATCH + 3):
        log.add(receipt(f"{number:04}"))
    await log.flush()
    assert table.writes == [BATCH, 3]


async def test_a_full_buffer_drops_and_counts() -> None:
    table = MemoryTable()
    log = log_of(table, capacity=2)
    for name in ("a", "b", "c", "d"):
        log.add(receipt(name))
    await log.flush()
    assert (list(table.rows), log.dropped) == (["a", "b"], 2)


async def test_a_failing_table_only_costs_receipts() -> None:
    table = MemoryTable()
    table.error = StorageFailed("the disk is full")
    log = log_of(table)
    log.add(receipt("a"))
    await log.flush()
    table.error = None
    log.add(receipt("b"))
    await log.flush()
    assert (list(table.rows), log.dropped) == (["b"], 1)


async def test_a_write_survives_the_cancellation_of_its_caller_and_happens_once() -> None:
    table = MemoryTable()
    table.gate.clear()
    log = log_of(table)
    log.add(receipt("a"))
    asked = asyncio.create_task(log.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    log.add(receipt("b"))
    table.gate.set()
    await log.flush()
    assert (list(table.rows), table.writes, log.dropped) == (["a", "b"], [1, 1], 0)


async def test_stop_writes_buffered_receipts() -> None:
    table = MemoryTable()
    log = log_of(table)
    log.add(receipt("a"))
    await log.stop(5.0)
    assert (list(table.rows), log.dropped) == (["a"], 0)


async def test_stop_does_not_wait_for_a_hanging_disk() -> None:
    table = MemoryTable()
    table.gate.clear()
    log = log_of(table)
    log.add(receipt("a"))
    await log.stop(0.01)
    assert log.dropped == 1


async def test_old_and_excess_receipts_are_swept() -> None:
    table = MemoryTable()
    clock = ManualClock()
    await log_of(table, days=2, max_rows=50, clock=clock).sweep()
    assert table.swept == [(clock.now - 2 * MS_PER_DAY, 50)]


def test_ids_sort_by_time_within_a_millisecond_and_when_the_clock_goes_back() -> None:
    clock = ManualClock()
    log = log_of(MemoryTable(), clock=clock)
    ids = [log.new_id() for _ in range(50)]
    clock.now += 1
    ids.append(log.new_id())
    clock.now -= 60_000
    ids.append(log.new_id())
    assert ids == sorted(set(ids))
    assert {len(each) for each in ids} == {12}


def test_a_receipt_has_figures_but_no_text() -> None:
    considered = tuple(
        ConsideredCandidate(
            candidate=Candidate(at, f"e{at}", 1.23456789, None if at else 0.5, 0.25),
            fate="injected" if at == KEPT_CANDIDATES + 5 else "relevance",
        )
        for at in range(KEPT_CANDIDATES + 10)
    )
    made = receipt("a", Answer((), "down", "late", considered, Gate(0.25), "the block", 3))
    assert len(made.candidates) == KEPT_CANDIDATES + 1, "the best ones, and the injected one"
    assert (made.candidates[0].word_score, made.candidates[0].distance) == (1.234568, 0.5)
    assert made.fates == {"relevance": KEPT_CANDIDATES + 9, "injected": 1}
    assert (made.tokens, made.milliseconds, made.degraded, made.rerank) == (3, 1.5, "down", "late")
    assert made.gate == 0.25
    assert made.block_hash is not None
    assert "the block" not in repr(made)
    assert receipt("b").block_hash is None


@pytest.mark.parametrize("question", ["why?", "\ud800"])
def test_the_question_hash_depends_on_the_installation(question: str) -> None:
    assert question_hash(question, b"one") == question_hash(question, b"one")
    assert question_hash(question, b"one") != question_hash(question, b"two")
    assert question_hash(question, b"one") != question_hash(question + " ", b"one")
