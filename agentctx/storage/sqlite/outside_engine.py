"""The SQLite engine with its vectors in a store outside of the file.

Storing a vector takes three steps: a row says that it is on its way, an idempotent upsert stores it, and one
transaction removes the job and marks the row. Whatever ends between them leaves the job, so the vector is
stored again; or the chunk is gone by then, so the row is a removal that is owed. Removals follow the
deletion of a chunk by moments; until then no answer shows it, since every hit is looked up in the file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from agentctx.embedding_providers.base import Vectors
from agentctx.errors import DeadlineExceeded, StorageFailed
from agentctx.sqlite.readers import Readers
from agentctx.sqlite.writer import Writer
from agentctx.storage.entries import SWEEP_STEP
from agentctx.storage.records import Census, Filter, Job, NearestChunk, Space, SpaceFault, SpaceState
from agentctx.storage.sqlite import outside_index, search
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.vector_index import index_of
from agentctx.telemetry.base import NO_TELEMETRY, Telemetry
from agentctx.times import Clock, wall_clock
from agentctx.vector_stores.outside import OutsideVectors

log = structlog.get_logger("agentctx.storage")

T = TypeVar("T")

REMOVALS_A_STEP: Final = 1_000
REMOVAL_RETRY_S: Final = 5.0
"""A removal that failed is tried again after so long, or when the next one is due."""
MOST_ASKED: Final = 4_096
"""Nearest vectors asked for at most, when many of them turn out to be of chunks that are gone."""


class OutsideVectorStorage(SqliteStorage):
    """Made by `open_outside`; `close` it, which closes the store of the vectors as well.

    Whatever concerns vectors raises `StorageFailed` while that store does not answer. Saves, deletions and
    questions by words do not need it.
    """

    def __init__(
        self,
        path: Path,
        writer: Writer,
        readers: Readers,
        *,
        clock: Clock,
        idempotency_hours: int,
        outside: OutsideVectors,
    ) -> None:
        super().__init__(path, writer, readers, clock=clock, idempotency_hours=idempotency_hours)
        self.vector_store = outside.name
        self._outside = outside
        self._writes_outside = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_removal_due = asyncio.Event()
        self._is_removal_due.set()
        self._remover = asyncio.create_task(self._keep_removing(), name="removal of outside vectors")

    @classmethod
    async def open_outside(
        cls,
        path: Path,
        outside: OutsideVectors,
        *,
        readers: int = 3,
        clock: Clock = wall_clock,
        idempotency_hours: int = 24,
        telemetry: Telemetry = NO_TELEMETRY,
        reserve_bytes: int = 0,
    ) -> Self:
        """As `SqliteStorage.open`, and take over `outside`. It need not answer yet."""
        writer, pool = await cls._connect(
            path, readers=readers, clock=clock, telemetry=telemetry, reserve_bytes=reserve_bytes
        )
        storage = cls(path, writer, pool, clock=clock, idempotency_hours=idempotency_hours, outside=outside)
        await storage.look_at_words()
        return storage

    async def close(self) -> None:
        self._remover.cancel()
        await asyncio.wait({self._remover, *self._under_way})
        await super().close()
        await self._outside.aclose()
        if not self._remover.cancelled():
            self._remover.result()

    async def complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        return await self._undivided(self._complete(done, vectors))

    async def search_vectors(
        self, space: int, query: Vectors, wanted: Filter, limit: int
    ) -> list[NearestChunk]:
        narrowing = await self._readers.run(partial(search.narrow, wanted=wanted, now=self._clock()))
        among = narrowing.among
        if among is not None and len(among) <= search.FEW_CHUNKS:
            exact = await self.distances(space, query, among)
            nearest = sorted(exact.items(), key=lambda item: (item[1], item[0]))[:limit]
        else:
            asked = limit + len(narrowing.left_out)
            nearest = narrowing.kept(await self._nearest(space, query, wanted, asked, among), limit)
        return await self._readers.run(partial(search.with_entries, nearest=nearest))

    async def distances(self, space: int, query: Vectors, chunks: Sequence[int]) -> dict[int, float]:
        stored = await self._stored_among(space, chunks)
        return await self._outside.distances(space, query, sorted(stored)) if stored else {}

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        try:
            return await super().delete(entry_id, if_version=if_version, principal=principal)
        finally:
            self._is_removal_due.set()

    async def sweep(self, *, limit: int = SWEEP_STEP) -> int:
        # Runs every minute: what could not be removed is tried again.
        self._is_removal_due.set()
        return await super().sweep(limit=limit)

    async def prepare_space(self, space_id: int, canary: Vectors) -> Space:
        """As the base engine; and agree with the store on what it holds, which may have been exchanged.

        Raises:
            StorageFailed: it does not answer. The space is prepared nevertheless.
        """
        space = await super().prepare_space(space_id, canary)
        await self._undivided(self._agree(space_id))
        return space

    async def activate_space(self, space_id: int, *, most_owed: int | None = None) -> Space:
        self._is_removal_due.set()
        return await super().activate_space(space_id, most_owed=most_owed)

    async def retire_former(self) -> list[int]:
        try:
            return await super().retire_former()
        finally:
            self._is_removal_due.set()

    async def check_vectors(self) -> list[SpaceFault]:
        faults = await super().check_vectors()
        for space in await self._outside_spaces():
            if problems := await self._problems(space):
                faults.append(SpaceFault(space.id, "; ".join(problems)))
        return faults

    async def census(self) -> Census:
        counted = await super().census()
        for space in await self._outside_spaces():
            lost, unexpected = await self._undivided(self._differences(space.id))
            counted = replace(
                counted,
                vectors=counted.vectors - len(lost),
                unowed_chunks=counted.unowed_chunks + (len(lost) if space.enabled else 0),
                orphan_vectors=counted.orphan_vectors + len(unexpected),
            )
        return counted

    async def remove_orphans(self) -> int:
        removed = await super().remove_orphans()
        for space in await self._outside_spaces():
            removed += await self._undivided(self._remove_unexpected(space.id))
        return removed

    async def owe_missing(self) -> int:
        for space in await self._outside_spaces():
            await self._undivided(self._admit_lost(space.id))
        return await super().owe_missing()

    async def rebuild_vectors(self, space: int) -> int:
        return await self._undivided(self._rebuild(space))

    async def remove_gone(self) -> int:
        """Remove the vectors of chunks and spaces that are gone; returns how many chunks that were."""
        return await self._undivided(self._remove_gone())

    async def _complete(self, done: Sequence[Job], vectors: Vectors) -> int:
        leaving = await self._writer.run(partial(outside_index.announce, jobs=done, vectors=vectors))
        for space, found in leaving.items():
            await self._outside.upsert(space, found)
        self._is_removal_due.set()
        return await super().complete(done, vectors)

    async def _nearest(
        self, space: int, query: Vectors, wanted: Filter, limit: int, among: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """The nearest that are present; more are asked for while others take their places."""
        asked = limit
        while True:
            found = await self._outside.nearest(
                space,
                query,
                asked,
                namespace=wanted.namespace,
                collections=wanted.collections,
                session=wanted.session,
                among=among,
            )
            stored = await self._stored_among(space, [chunk for chunk, _ in found])
            present = [hit for hit in found if hit[0] in stored][:limit]
            if len(present) == limit or len(found) < asked or asked >= MOST_ASKED:
                return present
            asked = min(4 * asked, MOST_ASKED)

    async def _stored_among(self, space: int, chunks: Sequence[int]) -> set[int]:
        return await self._readers.run(partial(outside_index.stored_among, space=space, chunks=chunks))

    async def _outside_spaces(self) -> list[Space]:
        """Those that have vectors, or had some, in the present store."""
        return [
            space
            for space in await self.spaces()
            if space.vector_store == self.vector_store
            and space.dimension is not None
            and space.state is not SpaceState.RETIRED
        ]

    async def _problems(self, space: Space) -> list[str]:
        faulty = await self._outside.faulty(space.id, space.dimension or 0)
        there = await self._outside.places(space.id)
        right = await self._check(outside_index.places)
        strays = sum(chunk in right and right[chunk] != place for chunk, place in there.items())
        stored = await self._check(index_of(space.id, self.vector_store).count)
        counts = (
            (0 if there else stored, "vectors that are gone, which are all"),
            (len(faulty), "vectors that are not finite numbers of the space's dimension"),
            (strays, "vectors in a wrong namespace, collection or session"),
        )
        return [f"{text}: {count}" for count, text in counts if count]

    async def _differences(self, space: int) -> tuple[set[int], set[int]]:
        """Chunks whose vector is missing out there, and those whose vector out there nobody expects."""
        there: Mapping[int, Any] = await self._outside.places(space)
        index = index_of(space, self.vector_store)
        stored = set(await self._check(index.chunk_ids))
        expected = await self._check(partial(outside_index.expected, space=space))
        return stored - there.keys(), there.keys() - expected

    async def _agree(self, space: int) -> None:
        lost, unexpected = await self._differences(space)
        if lost or unexpected:
            log.warning("outside_vectors_differ", space=space, lost=len(lost), unexpected=len(unexpected))
            await self._outside.delete(space, sorted(unexpected))
            await self._forget(space, lost | unexpected)

    async def _remove_unexpected(self, space: int) -> int:
        _, unexpected = await self._differences(space)
        await self._outside.delete(space, sorted(unexpected))
        await self._forget(space, unexpected)
        return len(unexpected)

    async def _admit_lost(self, space: int) -> None:
        lost, _ = await self._differences(space)
        await self._forget(space, lost)

    async def _rebuild(self, space: int) -> int:
        owed = await super().rebuild_vectors(space)
        await self._outside.drop(space)
        return owed

    async def _remove_gone(self) -> int:
        for space in await self._readers.run(outside_index.retired):
            await self._outside.drop(space)
            await self._writer.run(partial(outside_index.forget_space, space=space), uses_reserve=True)
        removed = 0
        while pairs := await self._readers.run(partial(outside_index.removals, limit=REMOVALS_A_STEP)):
            for space in {space for space, _ in pairs}:
                await self._outside.delete(space, [chunk for owner, chunk in pairs if owner == space])
            await self._writer.run(partial(outside_index.forget, pairs=pairs), uses_reserve=True)
            removed += len(pairs)
        return removed

    async def _forget(self, space: int, chunks: set[int]) -> None:
        pairs = [(space, chunk) for chunk in sorted(chunks)]
        await self._writer.run(partial(outside_index.forget, pairs=pairs), uses_reserve=True)

    async def _keep_removing(self) -> None:
        patience_s: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._is_removal_due.wait()
            self._is_removal_due.clear()
            try:
                await self.remove_gone()
                patience_s = None
            except (StorageFailed, DeadlineExceeded) as error:
                # A missed deadline too: a check or a backup may hold the readers for long.
                patience_s = REMOVAL_RETRY_S
                log.warning("outside_removal_failed", error=error.code, reason=error.message)

    async def _undivided(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one write to the store at a time, to its end even if the caller goes away."""

        async def alone() -> T:
            async with self._writes_outside:
                return await work

        task = asyncio.create_task(alone())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)
