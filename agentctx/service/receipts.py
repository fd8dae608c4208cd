"""Stores receipts of injections after the reply, so that they do not delay it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import structlog

from agentctx.errors import StorageFailed
from agentctx.service.rag.candidate import ConsideredCandidate, count_fates
from agentctx.service.rag.question import Answer
from agentctx.service.write_behind import WriteBehind
from agentctx.storage.injections import (
    CandidateFigures,
    InjectionIds,
    InjectionStorage,
    Receipt,
    Visible,
    as_refused,
    everything,
    since_restart,
)
from agentctx.times import Clock

log = structlog.get_logger("agentctx.receipts")

CAPACITY = 1_024
MS_PER_DAY = 86_400_000
KEPT_CANDIDATES = 20
"""Number of best candidates kept in a receipt; injected ones are always kept."""


class ReceiptLog(WriteBehind[Receipt]):
    """A buffer of receipts whose readers also see receipts that are not written yet. Drops are counted."""

    def __init__(
        self,
        storage: InjectionStorage,
        *,
        days: int,
        max_rows: int,
        clock: Clock,
        capacity: int = CAPACITY,
        linger: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(capacity=capacity, linger=linger)
        self._storage = storage
        self._keep_ms = days * MS_PER_DAY
        self._max_rows = max_rows
        self._clock = clock
        self._ids = InjectionIds()
        self._asking: WeakValueDictionary[tuple[str, int | None], asyncio.Lock] = WeakValueDictionary()
        self.dropped = 0
        """Receipts dropped since the start."""

    def new_id(self) -> str:
        return self._ids.new(self._clock())

    @asynccontextmanager
    async def serialize(self, conversation: str, principal: int | None) -> AsyncIterator[None]:
        """Serialize the questions of a user's conversation: each must know what the last one was given."""
        lock = self._asking.setdefault((conversation, principal), asyncio.Lock())
        async with lock:
            yield

    async def find(self, injection_id: str) -> Receipt | None:
        """Return a receipt, written or still waiting, or None."""
        waiting = (receipt for receipt in reversed(self._waiting) if receipt.id == injection_id)
        return next(waiting, None) or await self._storage.find(injection_id)

    async def refuse(self, injection_id: str) -> None:
        """Record that the vendor refused the call with this block, and got it without."""
        try:
            receipt = await self.find(injection_id)
        except StorageFailed as error:
            log.warning("refusal_not_recorded", injection=injection_id, reason=error.message)
            return
        if receipt is not None:
            self.add(as_refused(receipt))

    async def injected_in(self, conversation: str, principal: int | None) -> tuple[list[int], int]:
        """Return the chunks injected into a user's conversation since its restart, and its time or 0."""
        mine = {each.id: each for each in self._of(conversation, principal)}
        stored = await self._storage.of_conversation(conversation, principal)
        newest = sorted(mine.values(), key=lambda each: each.id, reverse=True)
        receipts = since_restart([*newest, *(each for each in stored if each.id not in mine)])
        chunks = (each for receipt in receipts for each in receipt.candidates if each.fate == "injected")
        restarted = receipts[-1].created if receipts and receipts[-1].restarted else 0
        return list(dict.fromkeys(each.chunk for each in chunks)), restarted

    def _of(self, conversation: str, principal: int | None) -> list[Receipt]:
        """Return the waiting receipts of a user's conversation."""
        whose = conversation, principal
        return [each for each in self._waiting if (each.conversation, each.principal) == whose]

    async def began(self, conversation: str, principal: int | None) -> int:
        """Return the time of the first receipt of a user's conversation, or now."""
        waiting = [each.created for each in self._of(conversation, principal)]
        stored = await self._storage.began(conversation, principal)
        return min([*waiting, self._clock() if stored is None else stored])

    async def last(self, limit: int, visible: Visible = everything, entry: str = "") -> list[Receipt]:
        """Return the newest visible receipts, newest first, written or still waiting; of an `entry`, those
        that name it.
        """
        shown = (each for each in self._waiting if visible(each.namespaces, each.principal))
        waiting = {each.id: each for each in shown if not entry or each.names(entry)}
        found = {receipt.id: receipt for receipt in await self._storage.last(limit, visible, entry)} | waiting
        return [found[injection_id] for injection_id in sorted(found, reverse=True)[:limit]]

    async def sweep(self) -> int:
        """Remove receipts over the age or count limit; return how many."""
        return await self._storage.sweep(before=self._clock() - self._keep_ms, keep=self._max_rows)

    async def _write(self, batch: list[Receipt]) -> None:
        await self._storage.add(batch)

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        log.warning("receipts_dropped", receipts=count, dropped=self.dropped, reason=reason)


def make_receipt(context: Answer, *, took_s: float, **asked: Any) -> Receipt:
    """Build the receipt of an injection; `asked` has the fields that do not follow from the context."""
    return Receipt(
        **asked,
        gate=None if context.gate is None else round(context.gate.best, 6),
        degraded=context.degraded,
        rerank=context.rerank,
        judge=context.judge,
        candidates=tuple(
            figures(each)
            for at, each in enumerate(context.considered)
            if at < KEPT_CANDIDATES or each.fate == "injected"
        ),
        fates=count_fates(context.considered),
        tokens=context.tokens,
        milliseconds=round(1_000 * took_s, 3),
        block_hash=hashlib.sha256(context.block.encode()).hexdigest() if context.block else None,
    )


def figures(considered: ConsideredCandidate) -> CandidateFigures:
    """Return the figures of a candidate, rounded to six digits, without its text."""
    candidate = considered.candidate
    return CandidateFigures(
        entry=candidate.entry,
        chunk=candidate.chunk,
        word_score=None if candidate.word_score is None else round(candidate.word_score, 6),
        distance=None if candidate.distance is None else round(candidate.distance, 6),
        relevance=round(candidate.relevance, 6),
        fate=considered.fate,
        duplicate_of=considered.duplicate_of,
        reranked=considered.reranked,
        by_judge=candidate.by_judge,
    )


def question_hash(question: str, secret: bytes) -> str:
    """Return a keyed hash: equal for equal questions, and useless for guessing one without the secret."""
    return hmac.new(secret, question.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]
