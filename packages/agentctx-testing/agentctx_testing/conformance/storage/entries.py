"""Revising, listing, deleting and sweeping entries."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentctx.errors import Forgotten, KeyTaken, NotFound, VersionConflict
from agentctx.storage.audit import AuditQuery
from agentctx.storage.base import Storage
from agentctx.storage.entries import MAX_PAGE_CHARS
from agentctx.storage.records import Draft, Entry, ImportOptions, Revision, SaveOutcome
from agentctx.wire import FileMark
from agentctx_testing.drafts import (
    ALL,
    START_MS,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
)

HOUR_MS = 3_600_000


class EntryConformance:
    async def test_revise_builds_on_the_live_version(self, storage: Storage) -> None:
        saved = await save(storage, draft("one"))

        def appended(entry: Entry, _: Draft | None) -> Draft:
            return draft(entry.content + " more")

        revised = await storage.entries.revise(saved.id, appended, embed=True)
        assert (revised.version, (await storage.entries.get(saved.id)).content) == (2, "one more")  # type: ignore[union-attr]
        with pytest.raises(NotFound):
            await storage.entries.revise("unknown", appended, embed=True)
        with pytest.raises(VersionConflict):
            await storage.entries.revise(saved.id, appended, embed=True, if_version=1)

    async def test_a_revision_moves_an_entry_to_a_key_that_is_free(self, storage: Storage) -> None:
        saved, other = await save(storage, draft("one")), await save(storage, draft("two", key="taken"))

        def moved(key: str) -> Revision:
            return lambda entry, _: draft(entry.content + "!", key=key)

        with pytest.raises(KeyTaken, match=other.id):
            await storage.entries.revise(saved.id, moved("taken"), embed=True)
        outcomes = await asyncio.gather(
            *(storage.entries.revise(each.id, moved("free"), embed=True) for each in (saved, other)),
            return_exceptions=True,
        )
        assert {type(outcome) for outcome in outcomes} == {KeyTaken, SaveOutcome}
        found = await storage.entries.find("default", "knowledge", "free")
        assert found is not None
        assert found.version == 2
        await assert_sound(storage)

    async def test_the_first_live_key_with_a_prefix_is_found(self, storage: Storage) -> None:
        for key in ("a#1", "a#12.x", "a#12.y", "a#2", "b"):
            await save(storage, draft(key, key=key))

        async def found(prefix: str, collection: str = "knowledge") -> str | None:
            entry = await storage.entries.find_by_prefix("default", collection, prefix)
            return entry.key if entry else None

        assert [await found(prefix) for prefix in ("a#12", "a#1", "b", "c", "a#12.y")] == [
            "a#12.x",
            "a#1",
            "b",
            None,
            "a#12.y",
        ]
        assert await found("a#1", "learning") is None

    async def test_a_failing_revision_does_not_affect_its_neighbours(self, storage: Storage) -> None:
        saved = await save(storage, draft("one"))

        def failing(entry: Entry, _: Draft | None) -> Draft:
            raise ValueError("no")

        outcomes = await asyncio.gather(
            storage.entries.revise(saved.id, failing, embed=True),
            *(storage.entries.save(keyless(f"neighbour {n}"), embed=True) for n in range(10)),
            return_exceptions=True,
        )
        assert [isinstance(outcome, ValueError) for outcome in outcomes] == [True] + [False] * 10
        entries, _ = await storage.entries.list_entries(ALL, limit=50)
        assert len(entries) == 11
        await assert_sound(storage)

    async def test_concurrent_saves_under_one_key_get_consecutive_versions(self, storage: Storage) -> None:
        saved = await asyncio.gather(*(save(storage, draft(f"text {n}")) for n in range(40)))
        assert sorted(outcome.version for outcome in saved) == list(range(1, 41))
        seen: list[int] = []
        page, before = await storage.entries.history(saved[0].id, limit=15)
        while page:
            seen += [entry.version for entry in page]
            if before is None:
                break
            page, before = await storage.entries.history(saved[0].id, limit=15, before=before)
        assert seen == list(range(40, 0, -1))
        await assert_sound(storage)

    async def test_a_cancelled_caller_does_not_affect_others(self, storage: Storage) -> None:
        tasks = [asyncio.ensure_future(save(storage, keyless(f"text {n}"))) for n in range(20)]
        tasks[3].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(outcome, SaveOutcome) for outcome in outcomes) == 19
        await save(storage, draft("after"))
        await assert_sound(storage)

    async def test_pages_are_complete_and_newest_first(self, storage: Storage) -> None:
        ids = [(await save(storage, keyless(f"text {n}"))).id for n in range(7)]
        await save(storage, keyless("elsewhere", namespace="other"))
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page, cursor = await storage.entries.list_entries(ALL, limit=3, before=cursor)
            seen += [entry.id for entry in page]
            if cursor is None:
                break
        assert seen == ids[::-1]

    async def test_a_page_of_long_texts_ends_early(self, storage: Storage) -> None:
        long = "x" * (MAX_PAGE_CHARS // 2)
        ids = [(await save(storage, keyless(f"{n} {long}"))).id for n in range(4)]
        page, cursor = await storage.entries.list_entries(ALL, limit=10)
        assert [entry.id for entry in page] == [ids[3], ids[2]]
        heads, none = await storage.entries.list_entries(ALL, limit=10, with_content=False)
        assert ([entry.id for entry in heads], none) == (ids[::-1], None)
        page, cursor = await storage.entries.list_entries(ALL, limit=10, before=cursor)
        assert [entry.id for entry in page] == [ids[1], ids[0]]

    async def test_namespaces_are_counted_as_their_pages_show_them(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        listed = {name: replace(ALL, namespace=name, with_quarantined=True) for name in ("a", "b", "c", "d")}
        file = await save(storage, draft("one", namespace="a", attributes={"file": {}}))
        await save(storage, keyless("two", namespace="a"))
        held = await save(storage, keyless("held", namespace="a", is_held=True))
        assert held.quarantined
        gone = await save(storage, keyless("gone", namespace="b"))
        await save(storage, keyless("short", namespace="c", expires=START_MS + HOUR_MS))
        await storage.trust.mark_files("a", [FileMark(entries=[file.id], state="withdrawn", reason="gone")])
        await save(storage, keyless("and expired", namespace="d"))
        both = await save(
            storage, keyless("x", namespace="d", attributes={"file": {}}, expires=START_MS + HOUR_MS)
        )
        await storage.trust.mark_files("d", [FileMark(entries=[both.id], state="withdrawn", reason="gone")])
        await storage.entries.delete(gone.id)
        clock.now += HOUR_MS
        counts = await storage.entries.count_by_namespace()
        assert counts == {"a": 2, "d": 1}
        for name, wanted in listed.items():
            assert len((await storage.entries.list_entries(wanted, limit=9))[0]) == counts.get(name, 0)

    async def test_find_by_key(self, storage: Storage) -> None:
        saved = await save(storage, draft())
        assert (await storage.entries.find("default", "knowledge", "deploy")).id == saved.id  # type: ignore[union-attr]
        assert await storage.entries.find("other", "knowledge", "deploy") is None

    async def test_delete_removes_every_trace_immediately(self, storage: Storage) -> None:
        space = await serving_space(storage)
        first = await save(storage, draft("on Tuesday"))
        await embed(storage, first)
        second = await save(storage, draft("on Friday"))
        assert await storage.entries.delete(first.id) == 2
        assert await storage.entries.get(first.id) is None
        assert await storage.entries.history(first.id, limit=1) == ([], None)
        assert await found_by_words(storage, "friday tuesday") == []
        assert await storage.search.by_vector(space.id, vector(1), ALL, 10) == []
        assert await embed(storage, second) == 0
        assert (await storage.jobs.depth()).pending == 0
        census = await storage.upkeep.census()
        assert (census.entries, census.chunks, census.vectors, census.violations) == (0, 0, 0, 0)
        with pytest.raises(NotFound):
            await storage.entries.delete(first.id)

    async def test_many_are_forgotten_without_a_row_for_each(self, storage: Storage) -> None:
        wanted = [keyless(f"text {n}", namespace="a", is_held=n == 1) for n in range(3)]
        ids = [(await save(storage, each)).id for each in wanted]
        await save(storage, keyless("theirs", namespace="b"))
        entries = storage.entries
        assert await entries.ids_of("a", after="", limit=2) == ids[:2]
        assert await entries.ids_of("a", after=ids[1], limit=2) == ids[2:]
        assert [await entries.delete(each, is_audited=False) for each in ids] == [1, 1, 1]
        assert await entries.ids_of("a", after="", limit=2) == []
        assert not [row for row in await storage.audit.page(AuditQuery(limit=9)) if row.kind == "forget"]
        for entry_id in ids:
            imported = ImportOptions(entry_id, created=1, updated=2, dry_run=True)
            with pytest.raises(Forgotten):
                await entries.import_entry(wanted[0], imported, embed=True)
        assert await entries.count_by_namespace() == {"b": 1}

    async def test_an_expired_entry_is_hidden_before_the_sweep(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        saved = await save(storage, draft("brief", expires=START_MS + 10))
        hits = (await storage.search.by_words("brief", ALL, 5)).hits
        clock.now += 10
        assert await storage.entries.get(saved.id) is None
        assert await storage.entries.find("default", "knowledge", "deploy") is None
        assert (await storage.entries.list_entries(ALL, limit=5))[0] == []
        assert await storage.search.resolve([hit.chunk for hit in hits], ALL) == {}
        fresh = await save(storage, draft("brief again"))
        assert (fresh.version, fresh.id == saved.id) == (1, False)
        await assert_sound(storage)

    async def test_the_sweep_removes_only_expired_entries(self, storage: Storage, clock: ManualClock) -> None:
        await serving_space(storage)
        for number in range(5):
            await embed(
                storage, await save(storage, keyless(f"brief {number}", expires=START_MS + number + 1))
            )
        await save(storage, keyless("lasting"))
        clock.now += 3
        assert await storage.entries.sweep(limit=2) == 2
        assert await storage.entries.sweep() == 1
        assert await storage.entries.sweep() == 0
        census = await storage.upkeep.census()
        assert (census.entries, census.violations) == (3, 0)

    async def test_the_secret_is_created_once(self, storage: Storage) -> None:
        secret = await storage.secret()
        assert (len(secret), await storage.secret()) == (32, secret)

    async def test_stats_count_stored_rows(self, storage: Storage) -> None:
        await serving_space(storage)
        await embed(storage, await save(storage, draft()))
        await save(storage, keyless("seen", collection="observation"))
        stats = await storage.stats()
        assert (dict(stats.entries), stats.chunks, stats.vectors) == (
            {"knowledge": 1, "observation": 1},
            2,
            1,
        )
        assert stats.bytes > 0
