"""Damaged rows are never served; they are found, reported and repaired."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageCorrupt, VersionConflict
from agentctx.storage.file.driver import open_connection
from agentctx.storage.records import SaveOutcome
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.vectors.space_index import SpaceIndex
from agentctx.storage.trust import Source
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import ALL, ManualClock, draft, embed, keyless, serving_space, vector

FLIPPED = """UPDATE entries SET content = CAST(x'E2' || substr(CAST(content AS BLOB), 2) AS TEXT)
    WHERE id = ?"""
"""Flips bit 7 of the first letter."""
NO_JSON = "UPDATE entries SET attributes = ';' || substr(attributes, 2) WHERE id = ?"


async def opened(path: Path, clock: ManualClock) -> SqliteStorage:
    return await SqliteStorage.open(path / "agentctx.db", clock=clock)


async def save_embedded(path: Path, clock: ManualClock) -> list[SaveOutcome]:
    storage = await opened(path, clock)
    await serving_space(storage)
    saved = [await storage.entries.save(draft(key=f"k{number}"), embed=True) for number in range(3)]
    for each in saved:
        await embed(storage, each)
    await storage.close()
    return saved


async def save_pending(
    path: Path, clock: ManualClock, **changes: Any
) -> tuple[SaveOutcome, SaveOutcome, SaveOutcome]:
    """Save three entries whose jobs are pending."""
    storage = await opened(path, clock)
    await serving_space(storage)
    saved = [
        await storage.entries.save(keyless(f"bad words, {number}", **changes), embed=True)
        for number in range(3)
    ]
    await storage.close()
    return saved[0], saved[1], saved[2]


def damage_row(path: Path, sql: str, *parameters: Any) -> None:
    with closing(open_connection(path / "agentctx.db")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        assert connection.execute(sql, parameters).rowcount == 1


def replace_bytes(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes that occur once in the file of the database."""
    database = path / "agentctx.db"
    content = database.read_bytes()
    assert content.count(old) == 1
    database.write_bytes(content.replace(old, new))


def misplace_second_row(path: Path, table: str, row: int) -> None:
    """Give the second row of a table on one page another number (up to 127), which is not in order there.

    https://www.sqlite.org/fileformat2.html#b_tree_pages
    """
    database = path / "agentctx.db"
    with closing(open_connection(database)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    content = bytearray(database.read_bytes())
    page = (root - 1) * size
    assert content[page] == 13, "a leaf"
    cell = page + int.from_bytes(content[page + 10 : page + 12], "big")
    while content[cell] >= 128:  # the size of the row
        cell += 1
    assert content[cell + 1] == 2
    content[cell + 1] = row
    database.write_bytes(content)


@pytest.mark.parametrize("column", ["content", "trust", "attributes", "session", "key", "checksum"])
async def test_a_damaged_entry_is_refused_and_the_others_are_served(
    tmp_path: Path, clock: ManualClock, column: str
) -> None:
    bad, *good = await save_embedded(tmp_path, clock)
    values = {"attributes": '{"changed":1}', "trust": "operator", "checksum": None}
    sql = f"UPDATE entries SET {column} = ? WHERE id = ?"  # noqa: S608 - columns above
    damage_row(tmp_path, sql, values.get(column, "changed"), bad.id)
    storage = await opened(tmp_path, clock)
    try:
        with pytest.raises(StorageCorrupt):
            await storage.entries.get(bad.id)
        page, _ = await storage.entries.list_entries(ALL, limit=10)
        assert {entry.id for entry in page} == {entry.id for entry in good}
        chunks = [job.chunk for each in (bad, *good) for job in each.jobs]
        found = await storage.search.resolve(chunks, ALL)
        assert {chunk.entry.id for chunk in found.values()} == {entry.id for entry in good}
        assert storage.scrub.failures > 0
        assert [each.entry for each in await storage.scrub.repair()] == [bad.id]
        assert await storage.entries.delete(bad.id) == 1
        assert await storage.scrub.check_all() == []
    finally:
        await storage.close()


async def test_invalid_utf8_hides_only_its_own_entry(tmp_path: Path, clock: ManualClock) -> None:
    bad, *good = await save_pending(tmp_path, clock)
    ids = {each.id for each in good}
    damage_row(tmp_path, FLIPPED, bad.id)
    storage = await opened(tmp_path, clock)
    try:
        with pytest.raises(StorageCorrupt):
            await storage.entries.get(bad.id)
        page, _ = await storage.entries.list_entries(ALL, limit=10)
        assert {entry.id for entry in page} == ids
        found = await storage.search.resolve([job.chunk for each in (bad, *good) for job in each.jobs], ALL)
        assert {chunk.entry.id for chunk in found.values()} == ids
        assert {chunk.entry for chunk in await storage.search.sample_chunks(10)} == ids
        assert [each.entry for each in await storage.scrub.repair()] == [bad.id]
        assert await storage.entries.delete(bad.id) == 1
        assert await storage.scrub.check_all() == []
        assert {hit.entry for hit in (await storage.search.by_words("bad", ALL, 10)).hits} == ids
        assert (await storage.upkeep.census()).words_without_chunk == 1
    finally:
        await storage.close()


@pytest.mark.parametrize(("limit", "claimed"), [(1, 1), (2, 2), (10, 2)])
async def test_a_damaged_text_is_not_embedded_and_does_not_block_others(
    tmp_path: Path, clock: ManualClock, limit: int, claimed: int
) -> None:
    bad, *good = await save_pending(tmp_path, clock)
    damage_row(tmp_path, FLIPPED, bad.id)
    storage = await opened(tmp_path, clock)
    try:
        jobs = await storage.jobs.claim(limit, now=clock.now, lease_until=clock.now + 1_000)
        assert [job.entry for job in jobs] == [each.id for each in good[:claimed]]
        (buried,) = await storage.jobs.buried()
        assert (buried.entry, "damaged" in buried.reason) == (bad.id, True)
        assert (await storage.upkeep.census()).violations == 0
    finally:
        await storage.close()


async def test_a_damaged_text_expires_like_any_other(tmp_path: Path, clock: ManualClock) -> None:
    bad, *_ = await save_pending(tmp_path, clock, expires=clock.now + 1_000)
    damage_row(tmp_path, FLIPPED, bad.id)
    storage = await opened(tmp_path, clock)
    try:
        clock.now += 2_000
        assert await storage.entries.sweep() == 3
        assert await storage.entries.sweep() == 0
        assert (await storage.upkeep.census()).entries == 0
    finally:
        await storage.close()


async def test_erasing_revoked_entries_includes_damaged_ones(tmp_path: Path, clock: ManualClock) -> None:
    bad, *good = await save_pending(tmp_path, clock, agent="other")
    damage_row(tmp_path, FLIPPED, bad.id)
    storage = await opened(tmp_path, clock)
    try:
        revoked = await storage.trust.revoke(Source(agent="other"), principal=1, dry_run=False)
        assert revoked.revocation is not None
        await storage.trust.forget_revoked(revoked.revocation)
        assert set((await storage.trust.settle(embed=False)).erased) == {
            bad.id,
            *(each.id for each in good),
        }
    finally:
        await storage.close()


async def test_an_entry_with_invalid_json_can_be_deleted(tmp_path: Path, clock: ManualClock) -> None:
    bad, *good = await save_embedded(tmp_path, clock)
    damage_row(tmp_path, NO_JSON, bad.id)
    storage = await opened(tmp_path, clock)
    try:
        page, _ = await storage.entries.list_entries(replace(ALL, category="fact", tags=("ops",)), limit=10)
        assert {entry.id for entry in page} == {entry.id for entry in good}
        by_path = await storage.trust.revoke(Source(path="/notes"), principal=1, dry_run=True)
        assert by_path.entries == 0
        with pytest.raises(VersionConflict):
            await storage.entries.delete(bad.id, if_version=2)
        assert await storage.entries.delete(bad.id, if_version=1) == 1
        page, _ = await storage.entries.list_entries(ALL, limit=10)
        assert {entry.id for entry in page} == {entry.id for entry in good}
    finally:
        await storage.close()


@pytest.mark.parametrize(
    ("saved", "stored"), [("?", b"\xe4"), ("\ufffd", b"\xf3\xbf\xbd"), ("\ufffd", b"\xed\xa0\x80")]
)
async def test_a_damaged_text_never_reads_as_the_saved_one(
    tmp_path: Path, clock: ManualClock, saved: str, stored: bytes
) -> None:
    storage = await opened(tmp_path, clock)
    entry = await storage.entries.save(keyless(saved), embed=False)
    await storage.close()
    damage_row(tmp_path, "UPDATE entries SET content = CAST(? AS TEXT) WHERE id = ?", stored, entry.id)
    storage = await opened(tmp_path, clock)
    try:
        with pytest.raises(StorageCorrupt):
            await storage.entries.get(entry.id)
    finally:
        await storage.close()


async def test_a_chunk_beyond_the_end_of_its_entry_is_not_served(tmp_path: Path, clock: ManualClock) -> None:
    bad, *good = await save_embedded(tmp_path, clock)
    chunk = bad.jobs[0].chunk
    damage_row(tmp_path, "UPDATE chunks SET end_at = end_at + 128 WHERE id = ?", chunk)
    storage = await opened(tmp_path, clock)
    try:
        chunks = [job.chunk for each in (bad, *good) for job in each.jobs]
        found = await storage.search.resolve(chunks, ALL)
        assert {resolved.entry.id for resolved in found.values()} == {entry.id for entry in good}
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what) == (bad.id, "chunk")
    finally:
        await storage.close()


async def test_a_chunk_of_an_unknown_chunking_is_found(tmp_path: Path, clock: ManualClock) -> None:
    bad, *_ = await save_embedded(tmp_path, clock)
    damage_row(tmp_path, "UPDATE chunks SET chunking = 0 WHERE id = ?", bad.jobs[0].chunk)
    storage = await opened(tmp_path, clock)
    try:
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what) == (bad.id, "chunk")
    finally:
        await storage.close()


async def test_a_damaged_vector_is_found_and_queued_again(tmp_path: Path, clock: ManualClock) -> None:
    bad, *_ = await save_embedded(tmp_path, clock)
    chunk = bad.jobs[0].chunk
    damage_row(tmp_path, "UPDATE vector_checksums SET checksum = x'00' WHERE chunk = ?", chunk)
    storage = await opened(tmp_path, clock)
    try:
        (damage,) = await storage.scrub.check_all()
        assert (damage.entry, damage.what, damage.chunk) == (bad.id, "vector", chunk)
        assert await storage.scrub.repair() == []
        assert await storage.scrub.check_all() == []
        assert (await storage.jobs.depth()).pending == 1
        assert (await storage.upkeep.census()).violations == 0
    finally:
        await storage.close()


async def test_a_repair_queues_only_the_damaged_vectors(tmp_path: Path, clock: ManualClock) -> None:
    undamaged, bad, *_ = await save_embedded(tmp_path, clock)
    index = SpaceIndex(1)
    storage = await opened(tmp_path, clock)
    try:
        await storage.db.writer.run(lambda conn: index.delete(conn, [undamaged.jobs[0].chunk]))
        chunk = bad.jobs[0].chunk
        await storage.db.writer.run(
            lambda conn: (
                conn.execute(
                    "UPDATE vector_checksums SET checksum = x'00' WHERE chunk = ?", (chunk,)
                ).rowcount
            )
        )
        assert await storage.scrub.repair() == []
        jobs = await storage.jobs.claim(10, now=clock.now, lease_until=clock.now + 1_000)
        assert [job.chunk for job in jobs] == [chunk]
    finally:
        await storage.close()


async def test_everything_is_read_in_slices_once_a_day(tmp_path: Path, clock: ManualClock) -> None:
    await save_embedded(tmp_path, clock)
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


async def test_an_index_of_chunks_out_of_order_does_not_end_the_check(
    tmp_path: Path, clock: ManualClock
) -> None:
    storage = await opened(tmp_path, clock)
    await serving_space(storage)
    for content in ("superseded", "live"):
        await storage.entries.save(draft(content, key="same"), embed=True)
    for number in range(2):
        await storage.entries.save(draft(key=f"k{number}"), embed=True)
    await storage.close()
    # The cell of the index (entry, ordinal, id) for the entry with seq 4, and the same for seq 1.
    replace_bytes(tmp_path, bytes([6, 4, 1, 8, 1, 4]), bytes([6, 4, 1, 8, 1, 1]))
    storage = await opened(tmp_path, clock)
    try:
        assert await storage.scrub.check_all()
    finally:
        await storage.close()


async def test_a_table_out_of_order_does_not_prevent_a_start(tmp_path: Path, clock: ManualClock) -> None:
    """Without the mark that all rows have checksums, the start adds missing ones."""
    storage = await opened(tmp_path, clock)
    for number in range(5):
        await storage.entries.save(keyless(f"number {number}"), embed=False)
    await storage.close()
    damage_row(tmp_path, "UPDATE entries SET checksum = NULL WHERE seq = 2")
    damage_row(tmp_path, "DELETE FROM scrub WHERE name = 'filled'")
    misplace_second_row(tmp_path, "entries", 9)
    storage = await opened(tmp_path, clock)
    try:
        assert await storage.scrub.check_all()
    finally:
        await storage.close()


async def test_a_live_entry_without_chunks_is_reported(tmp_path: Path, clock: ManualClock) -> None:
    lost, *_ = await save_embedded(tmp_path, clock)
    damage_row(tmp_path, "DELETE FROM chunks WHERE entry = (SELECT seq FROM entries WHERE id = ?)", lost.id)
    storage = await opened(tmp_path, clock)
    try:
        assert [(each.entry, each.what) for each in await storage.scrub.repair()] == [(lost.id, "chunk")]
    finally:
        await storage.close()


@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_a_live_entry_that_lacks_a_chunk_is_reported(
    tmp_path: Path, clock: ManualClock, ordinal: int
) -> None:
    spans = (Span(0, 6), Span(5, 10), Span(11, 16))
    storage = await opened(tmp_path, clock)
    whole = await storage.entries.save(keyless("first next\nlast!\n", spans=spans), embed=False)
    incomplete = await storage.entries.save(keyless("first next\nlast?\n", spans=spans), embed=False)
    await storage.close()
    damage_row(
        tmp_path,
        "DELETE FROM chunks WHERE ordinal = ? AND entry = (SELECT seq FROM entries WHERE id = ?)",
        ordinal,
        incomplete.id,
    )
    storage = await opened(tmp_path, clock)
    try:
        assert {each.entry for each in await storage.scrub.check_all()} == {incomplete.id} != {whole.id}
    finally:
        await storage.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM chunks WHERE cue = 2",
        "UPDATE chunks SET cue = 2 WHERE ordinal = 0",
        "UPDATE chunks SET cue = 0 WHERE ordinal = 1",
        "UPDATE chunks SET ordinal = 9 WHERE ordinal = 0",
    ],
)
async def test_a_damaged_cue_is_reported_and_never_shown(
    tmp_path: Path, clock: ManualClock, damage: str
) -> None:
    cues = ["Which umbrella?", "planning a picnic"]
    storage = await opened(tmp_path, clock)
    space = await serving_space(storage)
    saved = await storage.entries.save(draft(attributes={"cues": cues}), embed=True)
    await embed(storage, saved)
    assert await storage.scrub.check_all() == []
    await storage.close()
    damage_row(tmp_path, damage)
    storage = await opened(tmp_path, clock)
    try:
        assert {each.entry for each in await storage.scrub.check_all()} == {saved.id}
        near = await storage.search.by_vector(space.id, vector(1), ALL, 9)
        words = (await storage.search.by_words("umbrella picnic deploy", ALL, 9)).hits
        hits = [*(hit.chunk for hit in near), *(hit.chunk for hit in words)]
        assert set(hits) <= {job.chunk for job in saved.jobs}
        shown = (await storage.search.resolve(hits, ALL)).values()
        assert {each.content for each in shown} <= {"The deploy window is on Tuesday."}
    finally:
        await storage.close()


async def test_a_cue_whose_text_a_damaged_index_misnames_leads_nowhere(
    tmp_path: Path, clock: ManualClock
) -> None:
    storage = await opened(tmp_path, clock)
    space = await serving_space(storage)
    for number in range(3):
        await storage.entries.save(keyless(f"first {number}"), embed=False)
    asked = await storage.entries.save(keyless("umbrella", attributes={"cues": ["rain"]}), embed=True)
    await embed(storage, asked)
    other = await storage.entries.save(keyless("hammer"), embed=True)
    await storage.close()
    text, cue = (job.chunk for job in asked.jobs)
    assert (text, cue, other.jobs[0].chunk) == (4, 5, 6)
    # The cell of the index (entry, ordinal, id) for the text.
    replace_bytes(tmp_path, bytes([6, 4, 1, 8, 1, 4, text]), bytes([6, 4, 1, 8, 1, 4, 6]))
    storage = await opened(tmp_path, clock)
    try:
        near = await storage.search.by_vector(space.id, vector(1), ALL, 9)
        words = (await storage.search.by_words("rain", ALL, 9)).hits
        assert {hit.chunk for hit in near} == {text}
        assert not words
    finally:
        await storage.close()


@pytest.mark.parametrize("is_settled", [False, True])
async def test_a_quarantined_entry_does_not_count_as_damaged(
    tmp_path: Path, clock: ManualClock, is_settled: bool
) -> None:
    """Neither a revoked entry, which loses its chunks in the background, nor one screened at its save."""
    storage = await opened(tmp_path, clock)
    try:
        await storage.entries.save(keyless("said by a bad agent", agent="bad"), embed=True)
        await storage.entries.save(keyless("obey me", is_held=True, flags=("instruction",)), embed=True)
        await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
        if is_settled:
            await storage.trust.settle(embed=True)
        assert await storage.scrub.check_all() == []
        assert await storage.scrub.step() is False
        assert (await storage.scrub.state()).damaged == 0
        assert not (await storage.upkeep.census()).violations
    finally:
        await storage.close()


async def test_a_quarantined_entry_that_lost_one_chunk_is_reported(
    tmp_path: Path, clock: ManualClock
) -> None:
    storage = await opened(tmp_path, clock)
    spans = (Span(0, 6), Span(5, 10))
    revoked = await storage.entries.save(keyless("first next", spans=spans, agent="bad"), embed=False)
    await storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
    await storage.close()
    damage_row(tmp_path, "DELETE FROM chunks WHERE ordinal = 0")
    storage = await opened(tmp_path, clock)
    try:
        assert {each.entry for each in await storage.scrub.check_all()} == {revoked.id}
    finally:
        await storage.close()
