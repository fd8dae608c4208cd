"""The postings in memory: the answers of FTS5, at once after each write, whoever wrote."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentctx.errors import StorageFailed
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import Draft
from agentctx.storage.search import Filter, WordResults
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.search import fts, postings_cache, word_index
from agentctx.storage.sqlite.search.postings import Batch, WordPostings
from agentctx.storage.sqlite.search.search_storage import SqliteSearch
from agentctx.storage.trust import Source
from agentctx_testing.conformance.storage.conversations import ConversationConformance
from agentctx_testing.conformance.storage.cues import CueConformance
from agentctx_testing.conformance.storage.quarantine import QuarantineConformance
from agentctx_testing.conformance.storage.search import SearchConformance
from agentctx_testing.conformance.storage.supersession import SupersessionConformance
from agentctx_testing.drafts import ALL, ManualClock, draft, found_by_words, keyless, save

FILTERS = (
    ALL,
    Filter(namespace="other"),
    Filter(namespace="nobody"),
    Filter(namespace="default", collections=("observation", "unknown")),
    Filter(namespace="default", session="s1"),
    Filter(namespace="other", collections=("knowledge",), session="s2"),
    Filter(namespace="default", agent="coder"),
    Filter(namespace="default", with_superseded=True, with_quarantined=True),
)
TEXT = (
    "red green blue running runs config.yaml getUserName cafe ÜBER schön 東京都 京 rocket 🚀 "
    "well-known amber ochre umber sienna teal mauve khaki ivory coral azure olive plum"
)
WORDS = TEXT.split()
QUESTIONS = (
    *WORDS,
    "Is the red config.yaml running?",
    "東京 blue",
    "wie schöne Häuser über Berge",
    "the",
    "!!",
)


class PostingsFirst(SqliteSearch):
    """Waits for the postings, so that FTS5 answers only if they are not in step."""

    answered = 0
    """How many questions the postings answered."""

    async def by_words(self, question: str, wanted: Filter, limit: int) -> WordResults:
        if self.db.postings._postings is None:
            await super().by_words(question, wanted, limit)
            await self.db.postings.refreshed()
        of = self.db.postings.of

        def counting(*args: Any, **options: Any) -> Any:
            found = of(*args, **options)
            self.answered += found is not None
            return found

        self.db.postings.of = counting  # type: ignore[method-assign]
        try:
            return await super().by_words(question, wanted, limit)
        finally:
            self.db.postings.of = of  # type: ignore[method-assign]


@pytest.fixture
async def storage(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    opened.search = PostingsFirst(opened.db)
    yield opened
    await opened.close()


class TestInMemory(
    SearchConformance, CueConformance, ConversationConformance, QuarantineConformance, SupersessionConformance
):
    """Runs the parts of the suite that search by words, with every posting in memory."""


def search_of(storage: SqliteStorage) -> PostingsFirst:
    assert isinstance(storage.search, PostingsFirst)
    return storage.search


def postings_of(storage: SqliteStorage) -> WordPostings:
    postings = storage.db.postings._postings
    assert postings is not None
    return postings


class RandomWrites:
    """Random saves, replacements, deletions, revocations and their undoing, through one of two engines."""

    def __init__(self, storage: SqliteStorage, other: SqliteStorage, seed: int) -> None:
        self._storage = storage
        self._engines = [storage] * 9 + [other]
        self.random = random.Random(seed)
        self._live: list[str] = []
        self._revocations: list[int] = []

    async def write(self) -> None:
        engine = self.random.choice(self._engines)
        kind = self.random.random()
        if self._live and kind < 0.2:
            await engine.entries.delete(self._live.pop(self.random.randrange(len(self._live))))
        elif kind < 0.24:
            revoked = await engine.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
            self._revocations += [revoked.revocation] if revoked.revocation is not None else []
        elif kind < 0.3 and self._revocations:
            await engine.trust.undo_revocation(self._revocations.pop())
        elif kind < 0.36:
            await engine.trust.settle(embed=True)
        elif kind < 0.4:
            await engine.upkeep.tidy()
        else:
            saved = await engine.entries.save(self._draft(), embed=self.random.random() < 0.5)
            self._live = [*(each for each in self._live if each != saved.id), saved.id]

    def _draft(self) -> Draft:
        drawn = self.random
        attributes: dict[str, Any] = {"category": "fact", "tags": ["ops"]}
        if drawn.random() < 0.2:
            attributes["cues"] = [" ".join(drawn.choices(WORDS, k=3))]
        text = " ".join(drawn.choices(WORDS, weights=range(len(WORDS), 0, -1), k=drawn.randint(1, 30)))
        make = draft if drawn.random() < 0.5 else keyless
        return make(
            text,
            **({"key": f"k{drawn.randrange(12)}", "labels": drawn.choice(WORDS)} if make is draft else {}),
            attributes=attributes,
            namespace=drawn.choice(["default", "default", "other"]),
            collection=drawn.choice(["knowledge", "observation"]),
            session=drawn.choice(["", "s1", "s2"]),
            agent=drawn.choice(["coder", "planner", "bad"]),
        )


@pytest.mark.parametrize("seed", range(4))
async def test_after_random_writes_the_answers_are_those_of_fts5(
    tmp_path: Path, clock: ManualClock, seed: int
) -> None:
    path = tmp_path / "agentctx.db"
    storage = await SqliteStorage.open(path, clock=clock)
    other = await SqliteStorage.open(path, clock=clock, words_mb=0)
    storage.search = search = PostingsFirst(storage.db)
    try:
        writing = RandomWrites(storage, other, seed)
        for _ in range(150):
            await writing.write()
            question = " ".join(writing.random.choices(QUESTIONS, k=writing.random.randint(1, 4)))
            wanted = writing.random.choice(FILTERS)
            limit = writing.random.choice([3, 500])
            expected = await other.search.by_words(question, wanted, limit)
            found = await storage.search.by_words(question, wanted, limit)
            assert found.counts == expected.counts, question
            assert [hit._replace(score=0) for hit in found.hits] == [
                hit._replace(score=0) for hit in expected.hits
            ], question
            assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in expected.hits])
            await storage.db.postings.refreshed()
        assert search.answered > 100
    finally:
        await other.close()
        await storage.close()


async def test_the_next_question_finds_a_new_text(storage: SqliteStorage) -> None:
    for word in ("otter", "crane", "heron", "lynx", "otters"):
        saved = await save(storage, keyless(word))
        assert (await found_by_words(storage, word))[-1] == saved.id
    assert search_of(storage).answered == 5


async def test_too_many_new_texts_are_left_to_fts5_until_they_are_read(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_cache, "MAX_BEHIND", 2)
    await save(storage, keyless("otter"))
    assert len(await found_by_words(storage, "otter")) == 1
    for number in range(5):
        await save(storage, keyless(f"otter {number}"))
    assert len(await found_by_words(storage, "otter")) == 6
    assert search_of(storage).answered == 1
    await storage.db.postings.refreshed()
    assert len(await found_by_words(storage, "otter")) == 6
    assert search_of(storage).answered == 2


async def test_a_forgotten_text_leaves_no_trace_of_its_words_in_memory(storage: SqliteStorage) -> None:
    kept = await save(storage, keyless("the otter sleeps"))
    saved = await save(storage, keyless("the zorilla sleeps"))
    ((chunk, *_),) = (await storage.search.by_words("zorilla", ALL, 5)).hits
    postings = postings_of(storage)
    assert postings.has([chunk], [hash("zorilla")]).all()
    await storage.entries.delete(saved.id)
    assert not postings.has([chunk], [hash("zorilla")]).any(), "it is still found"
    assert await storage.upkeep.tidy()
    assert not any(hash("zorilla") in run.words for run in postings._runs)
    assert all(len(run.slots) == run.starts[-1] for run in postings._runs)
    assert sum(len(run.slots) for run in postings._runs) == 3
    assert await found_by_words(storage, "sleeps") == [kept.id]
    assert postings_of(storage) is postings


async def test_no_word_is_in_memory(storage: SqliteStorage) -> None:
    await save(storage, keyless("the zorilla sleeps"))
    await found_by_words(storage, "zorilla")
    await found_by_words(storage, "numbat")
    known = search_of(storage)._hashes._known
    assert {type(each) for each in (*known, *(token for found in known.values() for token in found))} == {int}
    assert known[hash("numbat")] == (hash("numbat"),)


async def test_what_another_program_writes_is_found_and_the_postings_are_loaded_again(
    tmp_path: Path, storage: SqliteStorage, clock: ManualClock
) -> None:
    await save(storage, keyless("otter"))
    assert len(await found_by_words(storage, "otter")) == 1
    before = postings_of(storage)
    other = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock)
    await save(other, keyless("otter two"))
    await other.close()
    assert len(await found_by_words(storage, "otter")) == 2
    assert search_of(storage).answered == 1
    await storage.db.postings.refreshed()
    assert postings_of(storage) is not before
    assert len(await found_by_words(storage, "otter")) == 2
    assert search_of(storage).answered == 2


async def test_a_rebuilt_index_is_loaded_again(storage: SqliteStorage) -> None:
    saved = await save(storage, keyless("otter"))
    assert await found_by_words(storage, "otter") == [saved.id]
    before = postings_of(storage)
    await storage.upkeep.rebuild_words()
    assert storage.db.postings._postings is None
    assert await found_by_words(storage, "otter") == [saved.id]
    assert postings_of(storage) is not before


async def test_a_question_with_an_older_snapshot_reads_nothing_that_was_reported_since(
    storage: SqliteStorage,
) -> None:
    """Otherwise, the old labels of the entry would stay in memory."""
    saved = await save(storage, draft("text", labels="otter"))
    assert await found_by_words(storage, "otter") == [saved.id]
    cache, asked = storage.db.postings, storage.db.postings.reports
    loop = asyncio.get_running_loop()

    def late(conn: Connection) -> None:
        corpus = fts.corpus(conn)
        change = save(storage, draft("text", labels="numbat", attributes={"category": "rule"}))
        asyncio.run_coroutine_threadsafe(change, loop).result(10)
        assert cache.of(conn, corpus, asked) is None
        assert cache._changed

    await storage.db.readers.run(late)
    assert await found_by_words(storage, "otter") == []
    assert await found_by_words(storage, "numbat") == [saved.id]
    assert search_of(storage).answered == 3


async def test_a_write_that_is_rolled_back_changes_nothing(storage: SqliteStorage) -> None:
    saved = await save(storage, keyless("otter"))
    ((chunk, *_),) = (await storage.search.by_words("otter", ALL, 5)).hits

    def fail(conn: Connection) -> None:
        word_index.remove(conn, [(chunk, "otter", "", "", "")])
        raise StorageFailed("nothing of this is kept")

    with pytest.raises(StorageFailed):
        await storage.db.writer.run(fail)
    assert await found_by_words(storage, "otter") == [saved.id]
    assert search_of(storage).answered == 2


async def test_without_memory_fts5_answers(tmp_path: Path, clock: ManualClock) -> None:
    opened = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock, words_mb=0)
    saved = await save(opened, keyless("otter"))
    assert await found_by_words(opened, "otter") == [saved.id]
    assert opened.db.postings.bytes == 0
    await opened.close()


async def test_an_index_that_is_too_large_is_loaded_once_enough_is_forgotten(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [await save(storage, keyless(f"otter {each}")) for each in "xy"]
    monkeypatch.setattr(storage.db.postings, "_max_bytes", 60)
    assert len(await found_by_words(storage, "otter")) == 2
    assert storage.db.postings.bytes == 0
    await storage.entries.delete(first.id)
    await storage.upkeep.tidy()
    assert await found_by_words(storage, "otter") == [second.id]
    assert search_of(storage).answered == 1


async def test_an_index_that_cannot_be_read_is_not_tried_again(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(*_: object) -> None:
        tried.append(1)
        raise StorageFailed("the disk does not answer")

    monkeypatch.setattr(postings_cache, "_read", fail)
    saved = await save(storage, keyless("otter"))
    for _ in range(3):
        assert await found_by_words(storage, "otter") == [saved.id]
    assert len(tried) == 1


async def test_concurrent_questions_while_words_change(storage: SqliteStorage) -> None:
    saved = [await save(storage, keyless(f"otter {number}")) for number in range(30)]
    await found_by_words(storage, "otter")

    async def write() -> None:
        for each in saved[:10]:
            await save(storage, keyless(f"numbat {each.id}"))
            await storage.entries.delete(each.id)
            await storage.upkeep.tidy()

    async def ask() -> None:
        kept = {each.id for each in saved[10:]}
        for _ in range(20):
            assert kept <= set(await found_by_words(storage, "otter"))

    await asyncio.gather(write(), *(ask() for _ in range(3)))
    await storage.db.postings.refreshed()
    assert len(await found_by_words(storage, "otter")) == 20
    assert len(await found_by_words(storage, "numbat")) == 10


async def test_another_program_that_replaces_a_text_by_one_as_long_is_noticed(
    tmp_path: Path, storage: SqliteStorage, clock: ManualClock
) -> None:
    saved = await save(storage, draft("otter", labels=""))
    assert await found_by_words(storage, "otter") == [saved.id]
    other = await SqliteStorage.open(tmp_path / "agentctx.db", clock=clock, words_mb=0)
    await save(other, draft("crane", labels=""))
    await other.close()
    assert await found_by_words(storage, "otter") == []
    assert await found_by_words(storage, "crane") == [saved.id]


async def test_many_forgotten_texts_displace_no_other(storage: SqliteStorage) -> None:
    near = [await save(storage, keyless(f"otter otter {number}")) for number in range(60)]
    far = await save(storage, keyless("an otter among many other words of a long text"))
    assert len(await found_by_words(storage, "otter")) == 50
    for each in near:
        await storage.entries.delete(each.id)
    assert [hit.entry for hit in (await storage.search.by_words("otter", ALL, 1)).hits] == [far.id]


def labelled(label: str, **changes: Any) -> Draft:
    return draft("otter heron", labels=label, attributes={"category": "fact", "tags": [label]}, **changes)


@pytest.fixture
async def fresh(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStorage]:
    """Another database."""
    opened = await SqliteStorage.open(tmp_path / "fresh.db", clock=clock)
    opened.search = PostingsFirst(opened.db)
    yield opened
    await opened.close()


async def test_scores_do_not_depend_on_what_was_forgotten_or_changed(
    storage: SqliteStorage, fresh: SqliteStorage
) -> None:
    assert await found_by_words(storage, "otter") == []
    for number in range(12):
        gone = await save(storage, keyless(f"otter crane only{number}"))
        await save(storage, labelled(WORDS[number]))
        await found_by_words(storage, "otter")
        await storage.entries.delete(gone.id)
    for each in (storage, fresh):
        await save(each, labelled("lynx"))
        await save(each, keyless("heron crane"))
    for question in ("otter", "crane heron lynx"):
        found, expected = [await each.search.by_words(question, ALL, 5) for each in (storage, fresh)]
        assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in expected.hits])
        assert found.counts == expected.counts
    assert search_of(storage).answered == 15


async def test_what_is_written_while_the_postings_are_loaded_is_found_and_what_is_forgotten_is_not(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_cache, "CHUNKS_PER_SLICE", 2)
    saved = [await save(storage, labelled(f"heron{number}", key=f"k{number}")) for number in range(9)]
    load_slice, loop = storage.db.postings._load_slice, asyncio.get_running_loop()
    slices = 0

    async def write() -> None:
        await storage.entries.delete(saved[slices].id)
        await save(storage, labelled("crane", key=f"k{8 - slices}"))
        await save(storage, keyless("otter lynx"))

    def while_writing(conn: Connection, *rest: Any) -> bool:
        nonlocal slices
        if slices < 4:
            asyncio.run_coroutine_threadsafe(write(), loop).result(10)
        slices += 1
        return load_slice(conn, *rest)

    monkeypatch.setattr(storage.db.postings, "_load_slice", while_writing)
    await found_by_words(storage, "otter")
    questions = ("otter", "crane", "lynx", "heron0")
    found = [await storage.search.by_words(each, ALL, 50) for each in questions]
    assert search_of(storage).answered == 5
    assert slices > 5
    storage.db.postings._postings = None
    expected = [await SqliteSearch.by_words(search_of(storage), each, ALL, 50) for each in questions]
    assert [each.counts for each in found] == [each.counts for each in expected]
    assert [each.hits for each in found] == [each.hits for each in expected]


async def test_a_text_that_is_forgotten_while_a_question_reads_it_leaves_no_trace(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(storage, keyless("the otter sleeps"))
    await found_by_words(storage, "otter")
    saved = await save(storage, keyless("the zorilla sleeps"))
    read, loop = postings_cache._read, asyncio.get_running_loop()

    def and_forget(conn: Connection, chunks: Sequence[int]) -> Batch:
        batch = read(conn, chunks)
        asyncio.run_coroutine_threadsafe(storage.entries.delete(saved.id), loop).result(10)
        return batch

    with monkeypatch.context() as patched:
        patched.setattr(postings_cache, "_read", and_forget)
        await storage.search.by_words("sleeps", ALL, 5)
    assert await storage.upkeep.tidy()
    assert not any(hash("zorilla") in run.words for run in postings_of(storage)._runs)
