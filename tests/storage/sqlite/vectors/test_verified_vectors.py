"""The cache of verified vectors: when vectors are read again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agentctx.storage.file.driver import Connection
from agentctx.storage.records import SaveOutcome, Space
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.vectors.space_index import MeasuredChunks, SpaceIndex
from agentctx.storage.sqlite.vectors.verified_vectors import OVERHEAD_BYTES, VerifiedVectors
from agentctx_testing.drafts import ALL, ManualClock, embed, keyless, save, serving_space, vector

DIMENSION = 4
BYTES_EACH = 4 * DIMENSION + OVERHEAD_BYTES


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
    yield opened
    await opened.close()


async def filled(storage: SqliteStorage, count: int) -> tuple[Space, list[int]]:
    """Fill a space; return it and its chunks, each farther from `vector(1)`."""
    space = await serving_space(storage)
    saved: list[SaveOutcome] = [await save(storage, keyless(f"text {number}")) for number in range(count)]
    for number, each in enumerate(saved):
        await embed(storage, each, vector(1, number))
    return space, [each.jobs[0].chunk for each in saved]


async def measure(
    storage: SqliteStorage, verified: VerifiedVectors, chunks: Sequence[int]
) -> tuple[MeasuredChunks, bool]:
    """Return the measured distances, and whether the table was read."""

    def trace(conn: Connection) -> tuple[MeasuredChunks, bool]:
        statements: list[str] = []
        conn.set_trace_callback(statements.append)
        try:
            found = verified.measure(conn, vector(1), chunks)
        finally:
            conn.set_trace_callback(None)
        return found, any("vectors.embedding" in each for each in statements)

    return await storage.db.readers.run(trace)


async def test_a_vector_is_read_once(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 3)
    verified = VerifiedVectors(space.id)
    first, was_read = await measure(storage, verified, chunks)
    again, was_read_again = await measure(storage, verified, chunks)
    assert (was_read, was_read_again) == (True, False)
    assert again.nearest(3) == first.nearest(3)
    assert [hit.chunk for hit in first.nearest(3)] == chunks


async def test_the_file_is_not_mapped_after_a_measurement(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 3)
    await measure(storage, VerifiedVectors(space.id), chunks)
    sizes = await storage.db.readers.run(lambda conn: conn.execute("PRAGMA mmap_size").fetchone())
    assert sizes == (0,)


async def test_a_deleted_vector_is_not_measured(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 3)
    verified = VerifiedVectors(space.id)
    before, _ = await measure(storage, verified, chunks)
    await storage.entries.delete(before.found[chunks[0]].entry)
    after, _ = await measure(storage, verified, chunks)
    assert list(after.found) == chunks[1:]


async def test_a_vector_stored_again_is_measured_as_it_is_now(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 1)
    verified, index = VerifiedVectors(space.id), SpaceIndex(space.id)
    before, _ = await measure(storage, verified, chunks)

    def store_again(conn: Connection) -> None:
        index.delete(conn, chunks)
        place = conn.execute("SELECT namespace, collection, session FROM entries").fetchone()
        index.insert(conn, [(chunks[0], *place, vector(0, 1).tobytes())])

    await storage.db.writer.run(store_again)
    after, _ = await measure(storage, verified, chunks)
    assert (before.found[chunks[0]].distance, after.found[chunks[0]].distance) == pytest.approx((0, 1))


async def test_the_oldest_vectors_are_evicted(storage: SqliteStorage) -> None:
    space, (first, *others) = await filled(storage, 3)
    verified = VerifiedVectors(space.id, 2 * BYTES_EACH)
    await measure(storage, verified, [first])
    await measure(storage, verified, others)
    assert not (await measure(storage, verified, others))[1]
    assert (await measure(storage, verified, [first]))[1]


async def test_without_memory_nothing_is_cached(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 1)
    verified = VerifiedVectors(space.id, 0)
    for _ in range(2):
        found, was_read = await measure(storage, verified, chunks)
        assert (list(found.found), was_read) == (chunks, True)


async def test_deleted_vectors_leave_the_memory(storage: SqliteStorage) -> None:
    space, chunks = await filled(storage, 1)
    await storage.search.distances(space.id, vector(1), chunks)
    assert not (await measure(storage, storage.db.caches.verified(space.id), chunks))[1]
    await storage.db.caches.forget_retired()
    assert (await measure(storage, storage.db.caches.verified(space.id), chunks))[1]
    assert len(await storage.search.by_vector(space.id, vector(1), ALL, 5)) == 1
