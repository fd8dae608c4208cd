"""What is damaged on the disk is never served, and is found, named and mended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageCorrupt
from agentctx.sqlite.driver import open_connection
from agentctx.storage.records import Saved
from agentctx.storage.sqlite.engine import SqliteStorage
from tests.storage.conformance import embed, serving_space
from tests.storage.drafts import ALL, HandClock, draft


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


async def opened(path: Path, clock: HandClock) -> SqliteStorage:
    return await SqliteStorage.open(path / "agentctx.db", clock=clock)


async def filled(path: Path, clock: HandClock) -> list[Saved]:
    storage = await opened(path, clock)
    await serving_space(storage)
    saved = [await storage.save(draft(key=f"k{number}"), owed=True) for number in range(3)]
    for each in saved:
        await embed(storage, each)
    await storage.close()
    return saved


def spoil(path: Path, sql: str, *parameters: Any) -> None:
    with closing(open_connection(path / "agentctx.db")) as connection:
        assert connection.execute(sql, parameters).rowcount == 1


@pytest.mark.parametrize("column", ["content", "trust", "attributes", "session", "key", "checksum"])
async def test_a_damaged_entry_is_refused_and_the_others_are_served(
    tmp_path: Path, clock: HandClock, column: str
) -> None:
    bad, *good = await filled(tmp_path, clock)
    values = {"attributes": '{"changed":1}', "trust": "operator", "checksum": None}
    spoil(tmp_path, f"UPDATE entries SET {column} = ? WHERE id = ?", values.get(column, "changed"), bad.id)  # noqa: S608
    storage = await opened(tmp_path, clock)
    try:
        with pytest.raises(StorageCorrupt):
            await storage.get(bad.id)
        page, _ = await storage.list_entries(ALL, limit=10)
        assert {entry.id for entry in page} == {entry.id for entry in good}
        chunks = [job.chunk for each in (bad, *good) for job in each.jobs]
        found = await storage.resolve(chunks, ALL)
        assert {chunk.entry.id for chunk in found.values()} == {entry.id for entry in good}
        assert storage.scrub.failures > 0
        assert [each.entry for each in await storage.scrub.mend()] == [bad.id]
        assert await storage.delete(bad.id) == 1
        assert await storage.scrub.check_all() == []
    finally:
        await storage.close()


async def test_a_place_beyond_the_end_of_its_entry_is_not_served(tmp_path: Path, clock: HandClock) -> None:
    bad, *good = await filled(tmp_path, clock)
    chunk = bad.jobs[0].chunk
    spoil(tmp_path, "UPDATE chunks SET end_at = end_at + 128 WHERE id = ?", chunk)
    storage = await opened(tmp_path, clock)
    try:
        chunks = [job.chunk for each in (bad, *good) for job in each.jobs]
        found = await storage.resolve(chunks, ALL)
        assert {resolved.entry.id for resolved in found.values()} == {entry.id for entry in good}
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what) == (bad.id, "chunk")
    finally:
        await storage.close()


async def test_a_chunk_of_no_known_way_of_cutting_is_found(tmp_path: Path, clock: HandClock) -> None:
    bad, *_ = await filled(tmp_path, clock)
    spoil(tmp_path, "UPDATE chunks SET chunking = 0 WHERE id = ?", bad.jobs[0].chunk)
    storage = await opened(tmp_path, clock)
    try:
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what) == (bad.id, "chunk")
    finally:
        await storage.close()


async def test_a_damaged_vector_is_left_out_found_and_owed_again(tmp_path: Path, clock: HandClock) -> None:
    bad, *_ = await filled(tmp_path, clock)
    chunk = bad.jobs[0].chunk
    spoil(tmp_path, "UPDATE vector_checksums SET checksum = x'00' WHERE chunk = ?", chunk)
    storage = await opened(tmp_path, clock)
    try:
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what, damage.chunk) == (bad.id, "vector", chunk)
        assert await storage.scrub.mend() == []
        assert await storage.scrub.check_all() == []
        assert (await storage.depth()).pending == 1
        assert (await storage.census()).violations == 0
    finally:
        await storage.close()


async def test_everything_is_read_in_slices_once_a_day(tmp_path: Path, clock: HandClock) -> None:
    await filled(tmp_path, clock)
    storage = await opened(tmp_path, clock)
    try:
        assert (await storage.scrub.state()).finished is None
        assert not await storage.scrub.step()
        first = (await storage.scrub.state()).finished
        assert first == clock.now
        clock.now += 1_000
        await storage.scrub.step()
        assert (await storage.scrub.state()).finished == first
        clock.now += 86_400_000
        await storage.scrub.step()
        assert (await storage.scrub.state()).finished == clock.now
    finally:
        await storage.close()
