"""Finding and repairing damage in the SQLite engine: the conformance suite and what only this engine does."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.errors import SchemaForeign, StorageFailed
from agentctx.storage.file.driver import Error, OperationalError, open_connection
from agentctx.storage.records import SaveOutcome
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import word_index
from agentctx.storage.sqlite.upkeep import integrity, proofs, repair, word_rebuild
from agentctx_testing.conformance.storage.repair import (
    MISSING_CHUNK,
    TEXTS,
    RepairConformance,
    assert_every_chunk_is_found,
    assert_healthy,
    embed_pending,
    filled,
    prepared_space,
)
from agentctx_testing.drafts import ALL, ManualClock, draft, keyless
from tests.storage.sqlite_saboteur import SqliteSaboteur

WORD_DAMAGE = {
    "rows of data": "DELETE FROM chunk_fts_data WHERE id > 10",
    "all data": "DELETE FROM chunk_fts_data",
    "garbled data": "UPDATE chunk_fts_data SET block = zeroblob(length(block)) WHERE id > 10",
    "a short leaf": "UPDATE chunk_fts_data SET block = substr(block, 1, 50) WHERE id > 10",
    "a short structure": "UPDATE chunk_fts_data SET block = substr(block, 1, 5) WHERE id = 10",
    "averages": "UPDATE chunk_fts_data SET block = zeroblob(10) WHERE id = 1",
    "sizes": "DELETE FROM chunk_fts_docsize",
    "a size": "DELETE FROM chunk_fts_docsize WHERE id = (SELECT MAX(id) FROM chunk_fts_docsize)",
    "all settings": "DELETE FROM chunk_fts_config",
    "the ranking": "DELETE FROM chunk_fts_config WHERE k = 'rank'",
    "secure deletion": "INSERT INTO chunk_fts (chunk_fts, rank) VALUES ('secure-delete', 0)",
    "table of data": "DROP TABLE chunk_fts_data",
    "table of seeks": "DROP TABLE chunk_fts_idx",
    "table of sizes": "DROP TABLE chunk_fts_docsize",
    "table of settings": "DROP TABLE chunk_fts_config",
    "everything": "DROP TABLE chunk_fts",
    "all words": "INSERT INTO chunk_fts (chunk_fts) VALUES ('delete-all')",
}
"""Each leaves the entries as they are."""
VECTOR_DAMAGE = {
    "ids": "DROP TABLE vec_1_rowids",
    "blocks": "DROP TABLE vec_1_chunks",
    "short vectors": "UPDATE vec_1_vector_chunks00 SET vectors = substr(vectors, 1, 100)",
    "no bits": "UPDATE vec_1_chunks SET validity = zeroblob(length(validity))",
    "a namespace": "UPDATE vec_1_chunks SET partition00 = 'elsewhere'",
    "garbled collections": "UPDATE vec_1_metadatachunks00 SET data = zeroblob(length(data))",
    "impossible sessions": "UPDATE vec_1_metadatachunks01 SET data = randomblob(length(data))",
    "texts of sessions": "DELETE FROM vec_1_metadatatext01",
}


@pytest.fixture
def saboteur(tmp_path: Path, storage: SqliteStorage) -> SqliteSaboteur:
    return SqliteSaboteur(tmp_path / "agentctx.db")


class TestSqliteRepair(RepairConformance):
    """Runs the suite."""


class TestSqliteRepairInSlices(RepairConformance):
    """Runs the suite with a census that counts in slices, as it does in large databases."""

    @pytest.fixture(autouse=True)
    def one_id_a_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(proofs, "IDS_PER_SLICE", 1)


async def test_checks_neither_lock_the_writer_nor_change_anything(
    tmp_path: Path, storage: SqliteStorage
) -> None:
    await filled(storage)
    commits = (await storage.stats()).commits
    with closing(open_connection(tmp_path / "agentctx.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        before = other.execute("PRAGMA data_version").fetchone()
        await assert_healthy(storage)
        other.execute("ROLLBACK")
        assert other.execute("PRAGMA data_version").fetchone() == before
    assert (await storage.stats()).commits == commits


@pytest.mark.parametrize("damage", WORD_DAMAGE.values(), ids=WORD_DAMAGE.keys())
async def test_a_damaged_word_index_is_found_and_rebuilt(
    storage: SqliteStorage, saboteur: SqliteSaboteur, damage: str
) -> None:
    saved = await filled(storage)
    saboteur.run(damage)
    assert await storage.upkeep.check_words() is not None
    assert await storage.upkeep.check_integrity() == [], "this needs no backup"
    assert isinstance((await storage.upkeep.census()).violations, int)
    assert await storage.upkeep.rebuild_words() == 6
    await assert_healthy(storage)
    await assert_every_chunk_is_found(storage, saved)


async def test_remains_of_a_word_index_are_replaced(storage: SqliteStorage, saboteur: SqliteSaboteur) -> None:
    saved = await filled(storage)
    saboteur.run(
        "PRAGMA writable_schema = 1",
        "DELETE FROM sqlite_schema WHERE name = 'chunk_fts'",
        "CREATE TABLE something (x)",  # makes other connections read the schema again
        "DROP TABLE something",
    )
    assert await storage.upkeep.check_words() == "the index of words is damaged: chunk_fts missing"
    await storage.upkeep.rebuild_words()
    await assert_healthy(storage)
    await assert_every_chunk_is_found(storage, saved)


async def test_words_that_only_seeks_miss_are_noticed(
    storage: SqliteStorage, saboteur: SqliteSaboteur
) -> None:
    """FTS5's own check does not find this."""
    await storage.entries.save(keyless(" ".join(f"word{number}" for number in range(3_000))), embed=False)
    saboteur.run("DELETE FROM chunk_fts_idx")
    assert (await storage.search.by_words("word2999", ALL, 5)).hits == []
    assert "cannot be found" in (await storage.upkeep.check_words() or "")
    await storage.upkeep.rebuild_words()
    assert len((await storage.search.by_words("word2999", ALL, 5)).hits) == 1
    assert await storage.upkeep.check_words() is None


async def test_the_rebuilt_index_equals_the_one_of_the_migrations(
    tmp_path: Path, storage: SqliteStorage
) -> None:
    def schema() -> list[object]:
        with closing(open_connection(tmp_path / "agentctx.db", readonly=True)) as conn:
            rows = conn.execute("SELECT name, sql FROM sqlite_schema WHERE name LIKE 'chunk_fts%'")
            tables = [(name, re.sub(r"""["'](chunk_fts\w*)["']""", r"\1", sql)) for name, sql in rows]
            config = conn.execute("SELECT k, v FROM chunk_fts_config")
            return sorted([*tables, *config], key=str)

    migrated = schema()
    await storage.upkeep.rebuild_words()
    assert schema() == migrated


async def test_saves_edits_and_deletes_continue_during_a_rebuild(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = await filled(storage)
    numbered = [
        await storage.entries.save(draft(f"numbered {n}", key=f"k{n}"), embed=True) for n in range(40)
    ]
    monkeypatch.setattr(word_rebuild.add_words, "__defaults__", (1,))

    async def use_meanwhile() -> list[SaveOutcome]:
        made = [await storage.entries.save(keyless(f"made meanwhile {n}"), embed=True) for n in range(5)]
        made += [
            await storage.entries.save(draft(f"other words {n}", key=f"k{n}"), embed=True)
            for n in range(30, 35)
        ]
        for n in range(36, 40):
            await storage.entries.save(
                draft(f"numbered {n}", key=f"k{n}", labels="new", attributes={}), embed=True
            )
        for outcome in saved[35:40]:
            await storage.entries.delete(outcome.id)
        return made

    _, made = await asyncio.gather(storage.upkeep.rebuild_words(), use_meanwhile())
    await embed_pending(storage)
    await assert_healthy(storage)
    await assert_every_chunk_is_found(storage, [*saved, *numbered[:20], *numbered[25:30], *made])
    assert len((await storage.search.by_words("new", ALL, 50)).hits) == 4


async def test_an_interrupted_rebuild_loses_no_word_and_resumes(
    tmp_path: Path, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = await filled(storage)
    monkeypatch.setattr(word_rebuild.add_words, "__defaults__", (1,))
    await _interrupt_a_rebuild(storage)
    await assert_every_chunk_is_found(storage, saved)
    assert "is being rebuilt" in (storage.search.keyword_gap or "")
    await storage.close()

    reopened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
    try:
        assert "is being rebuilt" in (reopened.search.keyword_gap or "")
        await reopened.entries.delete(saved[1].id)
        saved[2] = await reopened.entries.save(keyless("said after the restart"), embed=True)
        assert await reopened.upkeep.resume_words() == 6
        assert await reopened.upkeep.resume_words() is None
        assert reopened.search.keyword_gap is None
        await embed_pending(reopened)
        await assert_healthy(reopened)
        await assert_every_chunk_is_found(reopened, [saved[0], *saved[2:]])
    finally:
        await reopened.close()


async def _interrupt_a_rebuild(storage: SqliteStorage) -> None:
    """Leave a rebuild as a kill would, after the first chunk is in the new index."""
    await storage.db.writer.run(word_rebuild.begin)
    await storage.db.writer.run(partial(word_rebuild.add_words, after=0, now=1))
    await storage.upkeep.inspect_words()


async def test_a_text_forgotten_during_a_rebuild_is_in_neither_index(
    tmp_path: Path, storage: SqliteStorage
) -> None:
    canary = "774411996633885522"
    secret = await storage.entries.save(keyless(f"the canary {canary}"), embed=False)
    await filled(storage)
    await storage.db.writer.run(word_rebuild.begin)
    await storage.db.writer.run(partial(word_rebuild.add_words, after=0, now=1))
    await storage.entries.delete(secret.id)
    assert await storage.upkeep.tidy()
    await storage.close()
    assert canary.encode() not in (tmp_path / "agentctx.db").read_bytes()


async def test_missing_words_are_reported_until_they_are_rebuilt(
    storage: SqliteStorage, saboteur: SqliteSaboteur
) -> None:
    saved = await filled(storage)
    saboteur.remove_words(saved[1].jobs[0].chunk)
    await storage.upkeep.census()
    before = storage.search.keyword_gap
    assert before == "words: keyword search misses 1 of 6 chunks, run `agentctx doctor --fix`"
    await storage.upkeep.rebuild_words()
    assert storage.search.keyword_gap != before
    await assert_healthy(storage)


async def test_a_rebuild_rechunks_an_entry_with_a_damaged_chunk(
    storage: SqliteStorage, saboteur: SqliteSaboteur
) -> None:
    saved = await filled(storage)
    saboteur.run("UPDATE chunks SET end_at = 9 WHERE entry = 2 AND ordinal = 0")
    saboteur.run("UPDATE entries SET content = 'tampered' WHERE seq = 3")
    await storage.upkeep.rebuild_words()
    await embed_pending(storage)
    await assert_healthy(storage)
    assert [hit.entry for hit in (await storage.search.by_words(TEXTS[0], ALL, 1)).hits] == [saved[0].id]
    assert {damage.entry for damage in await storage.scrub.check_all()} == {saved[1].id}
    await assert_every_chunk_is_found(storage, saved[2:])


@pytest.mark.parametrize("damage", VECTOR_DAMAGE.values(), ids=VECTOR_DAMAGE.keys())
async def test_damaged_vectors_are_found_and_rebuilt(
    storage: SqliteStorage, saboteur: SqliteSaboteur, damage: str
) -> None:
    saved = await filled(storage)
    saved.append(
        await storage.entries.save(keyless("in a session", session="a name of many characters"), embed=True)
    )
    await embed_pending(storage)
    saboteur.run(damage)
    (fault,) = await storage.upkeep.check_vectors()
    assert fault.space == 1
    assert await storage.upkeep.check_integrity() == []
    await storage.upkeep.remove_orphans()
    await storage.upkeep.create_missing_jobs()
    await storage.upkeep.rebuild_vectors(1)
    assert (await storage.upkeep.census()).chunks_without_job == 0
    assert await embed_pending(storage) == 7
    await assert_healthy(storage)
    await assert_every_chunk_is_found(storage, saved)


@pytest.mark.parametrize("damage", ["short vectors", "no bits"])
async def test_orphans_in_a_damaged_table_stay_until_it_is_rebuilt(
    storage: SqliteStorage, saboteur: SqliteSaboteur, damage: str
) -> None:
    saved = await filled(storage)
    saboteur.add_vector(1, MISSING_CHUNK)
    saboteur.run(VECTOR_DAMAGE[damage])
    assert await storage.upkeep.remove_orphans() == 0
    assert (await storage.upkeep.census()).orphan_vectors == 1
    await storage.upkeep.rebuild_vectors(1)
    await embed_pending(storage)
    await assert_healthy(storage)
    await assert_every_chunk_is_found(storage, saved)


async def test_many_orphans_are_removed_in_steps(
    storage: SqliteStorage, saboteur: SqliteSaboteur, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (repair.remove_orphan_vectors, repair.remove_orphan_jobs, repair.remove_orphan_chunks):
        monkeypatch.setattr(step, "__defaults__", (2,))
    await filled(storage)
    for number in range(5):
        saboteur.add_vector(1, MISSING_CHUNK + number)
        saboteur.add_job(MISSING_CHUNK + number)
    assert await storage.db.writer.run(repair.remove_orphan_vectors) == 2
    assert await storage.db.writer.run(repair.remove_orphan_jobs) == 2
    assert await storage.upkeep.remove_orphans() == 6
    await assert_healthy(storage)


async def test_a_retired_space_gets_no_table(storage: SqliteStorage) -> None:
    old = await prepared_space(storage)
    new = await storage.spaces.open({"model": "two"})
    await storage.spaces.activate(new.id)
    await storage.spaces.retire_former(new.id)
    await storage.upkeep.rebuild_vectors(old.id)
    found = await storage.db.readers.run(
        lambda conn: conn.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'vec_[0-9]*'").fetchall()
    )
    assert found == []


async def test_a_damaged_page_is_an_integrity_problem(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path)
    await storage.entries.save(keyless("the passphrase is xylophone"), embed=False)
    await storage.close()
    _zero_half_a_page(path, "entries_live_id")
    storage = await SqliteStorage.open(path)
    try:
        problems = await storage.upkeep.check_integrity()
    finally:
        await storage.close()
    assert 1 <= len(problems) <= integrity.MAX_PROBLEMS
    assert "xylophone" not in str(problems)


async def test_a_changed_constraint_is_a_problem_but_a_changed_comment_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "agentctx.db"
    await (await SqliteStorage.open(path)).close()
    problems = []
    for before, after in (
        (b"-- What it was done to", b"-- Whot it was done to"),
        (b"'system',", b"'sqstem',"),
    ):
        assert path.read_bytes().count(before) == 1
        path.write_bytes(path.read_bytes().replace(before, after))
        with closing(open_connection(path, readonly=True)) as conn:
            problems += [integrity.check_database(conn)]
    assert problems == [[], ["the schema of injections was changed"]]
    with pytest.raises(SchemaForeign, match=r"table injections \(changed\)"):
        await SqliteStorage.open(path)


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("DROP TABLE flags", "flags is missing"),
        ("DROP INDEX idempotency_entry", "idempotency_entry is missing"),
    ],
)
async def test_a_missing_table_or_index_is_a_problem(
    storage: SqliteStorage, saboteur: SqliteSaboteur, sql: str, missing: str
) -> None:
    saboteur.run(sql)
    assert missing in await storage.upkeep.check_integrity()


async def test_dangling_references_are_a_problem_except_for_orphans(
    storage: SqliteStorage, saboteur: SqliteSaboteur
) -> None:
    await prepared_space(storage)
    saboteur.add_job(MISSING_CHUNK)
    assert await storage.upkeep.check_integrity() == []
    saboteur.run(
        "CREATE TABLE notes (entry INTEGER REFERENCES entries (seq))", "INSERT INTO notes VALUES (5), (6)"
    )
    assert await storage.upkeep.check_integrity() == [
        "notes: rows that refer to missing entries: 2",
        "table notes is not agentctx's",
    ]


async def test_an_error_of_the_check_itself_is_raised(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        error = OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_READ"
        raise error

    monkeypatch.setattr(word_index, "compare_with_entries", fail)
    with pytest.raises(StorageFailed, match="SQLITE_IOERR_READ"):
        await storage.upkeep.check_words()


async def test_checks_run_one_at_a_time_and_leave_readers_for_queries(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = most = 0
    run = storage.db.readers.run

    async def counted(fn: Callable[..., object], *, timeout_s: float = 2.0) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await run(fn, timeout_s=timeout_s)
        finally:
            running -= 1

    monkeypatch.setattr(storage.db.readers, "run", counted)
    await asyncio.gather(
        *(storage.upkeep.census() for _ in range(5)),
        storage.upkeep.check_words(),
        storage.upkeep.check_vectors(),
    )
    assert most == 1


def _zero_half_a_page(path: Path, index: str) -> None:
    with closing(open_connection(path)) as conn:
        (page,) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size + size // 2)
        file.write(bytes(size // 2))


async def _rebuild_faulty(storage: SqliteStorage) -> None:
    for fault in await storage.upkeep.check_vectors():
        await storage.upkeep.rebuild_vectors(fault.space)


Act = Callable[[SqliteSaboteur, int], None]
ACTS: dict[str, Act] = {
    "remove words": SqliteSaboteur.remove_words,
    "garble words": SqliteSaboteur.garble_words,
    "remove job": SqliteSaboteur.remove_job,
    "remove vector": lambda saboteur, chunk: saboteur.remove_vector(1, chunk),
    "corrupt vector": lambda saboteur, chunk: saboteur.corrupt_vector(1, chunk),
    "orphan vector": lambda saboteur, chunk: saboteur.add_vector(1, MISSING_CHUNK + chunk),
    "orphan job": lambda saboteur, chunk: saboteur.add_job(MISSING_CHUNK + chunk),
}
REPAIRS: dict[str, Callable[[SqliteStorage], Awaitable[object]]] = {
    "orphans": lambda storage: storage.upkeep.remove_orphans(),
    "missing jobs": lambda storage: storage.upkeep.create_missing_jobs(),
    "words": lambda storage: storage.upkeep.rebuild_words(),
    "vectors": _rebuild_faulty,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SaveOutcome]]:
    """A database whose copies are damaged; the last entry still has pending jobs."""
    path = tmp_path_factory.mktemp("template") / "agentctx.db"

    async def make() -> list[SaveOutcome]:
        storage = await SqliteStorage.open(path, clock=ManualClock())
        saved = await filled(storage)
        saved.append(await storage.entries.save(keyless("awaiting the provider"), embed=True))
        await storage.close()
        return saved

    return path, asyncio.run(make())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    acts=st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 5)), unique=True, max_size=8),
    orphan_chunk=st.booleans(),
    damage=st.lists(
        st.sampled_from(sorted({**WORD_DAMAGE, **VECTOR_DAMAGE}.values())), unique=True, max_size=2
    ),
    order=st.permutations(sorted(REPAIRS)),
)
def test_all_repairs_in_any_order_fix_any_damage(
    template: tuple[Path, list[SaveOutcome]],
    acts: list[tuple[str, int]],
    orphan_chunk: bool,
    damage: list[str],
    order: list[str],
) -> None:
    path, saved = template
    chunks = [job.chunk for outcome in saved for job in outcome.jobs]

    async def check(copy: Path) -> None:
        storage = await SqliteStorage.open(copy, readers=1, clock=ManualClock())
        try:
            for repair_name in order:
                await REPAIRS[repair_name](storage)
            await embed_pending(storage)
            await assert_healthy(storage)
            texts = [entry.content for entry in (await storage.entries.list_entries(ALL, limit=50))[0]]
            assert sorted(texts) == sorted([*TEXTS, "awaiting the provider"])
            await assert_every_chunk_is_found(storage, saved)
        finally:
            await storage.close()

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "agentctx.db"
        shutil.copy(path, copy)
        _damage(SqliteSaboteur(copy), chunks, acts, damage, orphan_chunk=orphan_chunk)
        asyncio.run(check(copy))


def _damage(
    saboteur: SqliteSaboteur,
    chunks: list[int],
    acts: list[tuple[str, int]],
    damage: list[str],
    *,
    orphan_chunk: bool,
) -> None:
    steps: list[Callable[[], object]] = [partial(ACTS[act], saboteur, chunks[number]) for act, number in acts]
    if orphan_chunk:
        steps.append(partial(saboteur.add_orphan_chunk, chunks[0]))
    steps += [partial(saboteur.run, statement) for statement in damage]
    for step in steps:
        with suppress(Error):  # damage that is already done may not be possible again
            step()
