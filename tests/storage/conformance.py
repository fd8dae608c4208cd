"""Conformance suite for storage engines. Subclass it with fixtures `storage` and `clock`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from agentctx.chunking.base import Span
from agentctx.embedding_providers.base import Vectors
from agentctx.errors import Conflict, Forgotten, IdempotencyKeyReused, KeyTaken, NotFound, VersionConflict
from agentctx.storage.audit import AuditQuery
from agentctx.storage.base import Storage
from agentctx.storage.entries import MAX_PAGE_CHARS, ImportOptions
from agentctx.storage.ids import BUCKETS, bucket_of
from agentctx.storage.records import (
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    Job,
    Revision,
    Saved,
    Space,
    SpaceState,
)
from agentctx.storage.search import (
    MAX_LISTED,
    ChunksWithTurns,
    Distances,
    Filter,
    Nearest,
    QueryVector,
    ResolvedChunk,
    Steps,
    Texts,
    WithTurns,
)
from agentctx.storage.versions import MAX_VERSIONS
from agentctx.wire import FileMark
from tests.storage.drafts import ALL, FINGERPRINT, START_MS, ManualClock, draft, keyless, vector, vectors

HOUR_MS = 3_600_000
OTHER = {**FINGERPRINT, "model": "other"}


async def serving_space(storage: Storage) -> Space:
    space = await storage.spaces.open(FINGERPRINT)
    return await storage.spaces.prepare(space.id, vector(1))


async def save(storage: Storage, wanted: Draft) -> Saved:
    return await storage.entries.save(wanted, embed=True)


async def embed(storage: Storage, saved: Saved, *rows: Vectors) -> int:
    found = rows or (vector(1),) * len(saved.jobs)
    return await storage.jobs.complete(saved.jobs, vectors(*found))


async def found_by_words(storage: Storage, question: str, wanted: Filter = ALL) -> list[str]:
    return [hit.entry for hit in (await storage.search.by_words(question, wanted, 50)).hits]


async def with_turns(
    storage: Storage, chunks: list[int], wanted: Filter, near: QueryVector | None = None
) -> ChunksWithTurns:
    """Return the chunks and the turns around them, read by a single step."""

    def steps() -> Steps[ChunksWithTurns]:
        found: ChunksWithTurns = yield WithTurns(chunks, wanted)
        return found

    return await storage.search.follow(steps, near)


async def assert_sound(storage: Storage) -> None:
    census = await storage.upkeep.census()
    assert census.violations == 0, census


class EntryConformance:
    async def test_a_saved_entry_is_read_back_unchanged(self, storage: Storage) -> None:
        saved = await save(
            storage,
            draft("Text.", session="s1", agent="planner", trust="external", expires=START_MS + HOUR_MS),
        )
        entry = await storage.entries.get(saved.id)
        assert entry is not None
        assert (saved.change, saved.version) == (Change.CREATED, 1)
        assert entry == Entry(
            id=saved.id,
            version=1,
            live=True,
            namespace="default",
            collection="knowledge",
            key="deploy",
            session="s1",
            agent="planner",
            content="Text.",
            attributes={"category": "fact", "tags": ["ops"]},
            origin="agent",
            trust="external",
            principal=1000,
            created=START_MS,
            updated=START_MS,
            expires=START_MS + HOUR_MS,
            pending=False,
            embedded=False,
        )

    async def test_an_id_carries_the_bucket_of_its_namespace(self, storage: Storage) -> None:
        for namespace in ("alice", "böb"):
            for wanted in (draft("Keyed."), keyless("Without a key.")):
                saved = await save(storage, replace(wanted, namespace=namespace))
                assert UUID(saved.id).int % BUCKETS == bucket_of(namespace)
                assert UUID(saved.id).version == 7

    async def test_saving_under_an_existing_key_adds_a_version(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        first = await save(storage, draft("on Tuesday"))
        clock.now += 5
        second = await save(storage, draft("on Friday"))
        assert (second.id, second.version, second.change) == (first.id, 2, Change.VERSION)
        history, following = await storage.entries.history(first.id, limit=2)
        assert following is None
        assert [(e.version, e.content, e.live) for e in history] == [
            (2, "on Friday", True),
            (1, "on Tuesday", False),
        ]
        assert [e.created for e in history] == [START_MS, START_MS]
        assert (await storage.entries.get(first.id, version=1)).content == "on Tuesday"  # type: ignore[union-attr]
        assert await found_by_words(storage, "tuesday") == []
        assert await found_by_words(storage, "friday") == [first.id]
        await assert_sound(storage)

    async def test_a_key_is_unique_per_namespace_and_collection(self, storage: Storage) -> None:
        ids = {
            (await save(storage, draft())).id,
            (await save(storage, draft(namespace="other"))).id,
            (await save(storage, draft(collection="notes"))).id,
        }
        assert len(ids) == 3

    async def test_saving_identical_content_and_attributes_changes_nothing(self, storage: Storage) -> None:
        await serving_space(storage)
        first = await save(storage, draft())
        again = await save(storage, draft())
        assert (again.id, again.version, again.change, again.jobs) == (first.id, 1, Change.NONE, ())
        assert again.pending

    async def test_changed_attributes_are_a_version_with_the_same_chunks(self, storage: Storage) -> None:
        await serving_space(storage)
        first = await save(storage, draft())
        await embed(storage, first)
        changed = await save(storage, draft(attributes={"category": "rule"}))
        entry = await storage.entries.get(first.id)
        assert entry is not None
        assert (changed.change, entry.version, entry.attributes) == (
            Change.ATTRIBUTES,
            2,
            {"category": "rule"},
        )
        assert changed.jobs == (), "the embedded text has not changed"
        assert not entry.pending
        earlier = await storage.entries.get(first.id, version=1)
        assert earlier is not None
        assert earlier.attributes == {"category": "fact", "tags": ["ops"]}
        await assert_sound(storage)

    async def test_an_equal_save_by_another_agent_leaves_the_entry_to_the_first(
        self, storage: Storage
    ) -> None:
        saved = await save(storage, draft(agent="first", session="s1"))
        again = await save(storage, draft(agent="second", session="s2", principal=2, labels="deploy second"))
        entry = await storage.entries.get(saved.id)
        assert entry is not None
        assert (again.change, again.version) == (Change.NONE, 1)
        assert (entry.agent, entry.session, entry.principal) == ("first", "s1", 1000)

    async def test_chunks_follow_their_entry_into_another_session(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = await save(storage, draft(session="s1"))
        await embed(storage, saved)
        moved = await save(storage, draft(session="s2", attributes={"tags": ["new"]}))
        assert (moved.version, moved.jobs, moved.pending) == (2, (), False)
        for session, expected in (("s1", []), ("s2", [saved.id])):
            wanted = Filter(namespace="default", session=session)
            assert await found_by_words(storage, "deploy", wanted) == expected
            nearest = await storage.search.by_vector(space.id, vector(1), wanted, 5)
            assert [hit.entry for hit in nearest] == expected
        await assert_sound(storage)

    async def test_a_job_in_flight_survives_a_change_that_its_text_does_not_show(
        self, storage: Storage
    ) -> None:
        space = await serving_space(storage)
        saved = await save(storage, draft())
        changed = await save(storage, draft(attributes={"category": "rule"}))
        assert (changed.version, changed.pending) == (2, True)
        assert await embed(storage, saved) == 1
        assert [hit.entry for hit in await storage.search.by_vector(space.id, vector(1), ALL, 5)] == [
            saved.id
        ]
        await assert_sound(storage)

    async def test_an_equal_ttl_is_renewed_in_place_and_another_is_a_version(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        saved = await save(storage, draft(expires=clock.now + HOUR_MS, ttl=HOUR_MS))
        for _ in range(2):
            clock.now += 1_000
            renewed = await save(storage, draft(expires=clock.now + HOUR_MS, ttl=HOUR_MS))
            entry = await storage.entries.get(saved.id)
            assert entry is not None
            assert (renewed.change, renewed.version) == (Change.IN_PLACE, 1)
            assert (entry.expires, entry.updated) == (clock.now + HOUR_MS, START_MS)
        longer = await save(storage, draft(expires=clock.now + 2 * HOUR_MS, ttl=2 * HOUR_MS))
        assert (longer.change, longer.version) == (Change.ATTRIBUTES, 2)
        assert (await save(storage, draft())).version == 3, "without a ttl"

    async def test_what_nobody_asked_for_changes_in_place(self, storage: Storage, clock: ManualClock) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        await embed(storage, saved)
        clock.now += 5
        merged = draft(attributes={"tags": ["more"]}, labels="deploy more", header="more", in_place=True)
        touched = draft(attributes={"category": "fact", "tags": ["ops"], "file": {"modified": 2}})
        assert (await save(storage, touched)).change is Change.IN_PLACE
        counted = await save(storage, merged)
        entry = await storage.entries.get(saved.id)
        assert entry is not None
        assert (counted.change, entry.version, entry.updated) == (Change.IN_PLACE, 1, START_MS)
        assert [job.text for job in counted.jobs] == ["more\nThe deploy window is on Tuesday."]
        assert await found_by_words(storage, "more") == [saved.id]
        assert (await save(storage, draft("Another text.", in_place=True))).version == 2
        await assert_sound(storage)

    async def test_the_first_version_the_one_with_the_text_and_the_newest_are_kept(
        self, storage: Storage
    ) -> None:
        for text in ("first", "second"):
            saved = await save(storage, draft(text))
        for number in range(MAX_VERSIONS):
            await save(storage, draft("second", attributes={"tags": [str(number)]}))
        versions, _ = await storage.entries.history(saved.id, limit=200)
        newest = MAX_VERSIONS + 2
        assert [entry.version for entry in versions] == [*range(newest, 4, -1), 2, 1]
        await assert_sound(storage)

    async def test_a_walk_misses_nothing_that_is_edited_meanwhile(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        saved = [await save(storage, draft(f"text {n}", key=f"k{n}")) for n in range(9)]
        walked: list[str] = []
        cursor = None
        while True:
            page, cursor = await storage.entries.list_entries(ALL, limit=2, before=cursor)
            walked += [entry.id for entry in page]
            clock.now += 1
            for number in (8 - len(walked), len(walked), 0):
                await save(storage, draft(f"edit {clock.now}", key=f"k{number % 9}"))
            if cursor is None:
                break
        assert walked == [each.id for each in reversed(saved)]

    async def test_new_labels_are_searchable_and_a_new_header_is_reembedded(self, storage: Storage) -> None:
        await serving_space(storage)
        first = await save(storage, draft())
        await embed(storage, first)
        tagged = await save(
            storage, draft(attributes={"tags": ["release"]}, labels="deploy release", header="r")
        )
        assert tagged.change is Change.ATTRIBUTES
        assert [job.text for job in tagged.jobs] == ["r\nThe deploy window is on Tuesday."]
        assert await found_by_words(storage, "release") == [first.id]
        assert await found_by_words(storage, "ops") == []
        await assert_sound(storage)

    async def test_if_version_prevents_lost_updates(self, storage: Storage) -> None:
        saved = await storage.entries.save(draft("one"), embed=False, if_version=0)
        await storage.entries.save(draft("two"), embed=False, if_version=1)
        for stale in (0, 1, 3):
            with pytest.raises(VersionConflict):
                await storage.entries.save(draft("three"), embed=False, if_version=stale)
        with pytest.raises(VersionConflict):
            await storage.entries.delete(saved.id, if_version=1)
        assert (await storage.entries.get(saved.id)).content == "two"  # type: ignore[union-attr]

    async def test_a_repeated_idempotency_key_saves_once(self, storage: Storage) -> None:
        once = IdempotencyKey(1000, "k", b"digest")
        first = await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        again = await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        assert (again.id, again.version, again.change) == (first.id, 1, Change.CREATED)
        entries, _ = await storage.entries.list_entries(ALL, limit=10)
        assert len(entries) == 1
        with pytest.raises(IdempotencyKeyReused):
            await storage.entries.save(
                keyless("other"), embed=False, idempotency=IdempotencyKey(1000, "k", b"else")
            )
        other = await storage.entries.save(
            keyless("same"), embed=False, idempotency=IdempotencyKey(7, "k", b"x")
        )
        assert other.id != first.id, "idempotency keys are scoped to a principal"

    async def test_a_late_copy_of_a_save_does_not_restore_a_forgotten_entry(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        once = IdempotencyKey(1000, "k", b"digest")
        first = await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        await storage.entries.delete(first.id)
        for _ in range(2):
            with pytest.raises(Forgotten, match="was forgotten"):
                await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        assert await storage.entries.list_entries(ALL, limit=10) == ([], None)
        clock.now += 25 * HOUR_MS
        await storage.entries.sweep()
        await storage.entries.save(keyless("same"), embed=False, idempotency=once)

    async def test_idempotency_keys_expire_after_a_day(self, storage: Storage, clock: ManualClock) -> None:
        once = IdempotencyKey(1000, "k", b"digest")
        first = await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        clock.now += 25 * HOUR_MS
        await storage.entries.sweep()
        again = await storage.entries.save(keyless("same"), embed=False, idempotency=once)
        assert again.id != first.id

    async def test_an_update_never_raises_trust(self, storage: Storage) -> None:
        saved = await save(storage, draft("one", trust="external"))
        await save(storage, draft("two", trust="operator"))
        assert (await storage.entries.get(saved.id)).trust == "external"  # type: ignore[union-attr]
        high = await save(storage, draft("one", key="high", trust="operator"))
        await save(storage, draft("two", key="high", trust="agent"))
        assert (await storage.entries.get(high.id)).trust == "agent"  # type: ignore[union-attr]

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
        assert {type(outcome) for outcome in outcomes} == {KeyTaken, Saved}
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
        assert sum(isinstance(outcome, Saved) for outcome in outcomes) == 19
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


class SearchConformance:
    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("The database is backed up nightly.", "backups of databases"),
            ("我们的数据库每天晚上备份一次", "备份"),
            ("서버 시스템을 재시작한다", "시스템"),
            ("call getUserName before the render", "user name"),
            ("call getUserName before the render", "getUserName"),
            ("set max_open_files in limits", "max_open_files"),
            ("set max_open_files in limits", "open files"),
            ("edit config.yaml first", "config.yaml"),
            ("a well-known port", "well-known"),
        ],
    )
    async def test_keyword_search_finds_words(self, storage: Storage, text: str, question: str) -> None:
        saved = await save(storage, keyless(text))
        await save(storage, keyless("Nothing of the kind."))
        assert (await found_by_words(storage, question))[:1] == [saved.id]

    @pytest.mark.parametrize(
        "question",
        [
            '"',
            "AND",
            "a AND",
            "NEAR(",
            "NEAR(a b",
            "*",
            "-",
            ":",
            "text:x",
            "(",
            ")",
            "^a",
            "a*",
            "+",
            "''",
            "\\",
        ],
    )
    async def test_fts_syntax_is_treated_as_text(self, storage: Storage, question: str) -> None:
        await save(storage, keyless("a b x"))
        assert isinstance(await found_by_words(storage, question), list)

    async def test_labels_are_searchable(self, storage: Storage) -> None:
        saved = await save(storage, draft("Text.", labels="rollback-plan blue"))
        assert await found_by_words(storage, "rollback-plan") == [saved.id]

    async def test_a_long_question_keeps_its_rarest_words(self, storage: Storage) -> None:
        noise = " ".join(f"common{n}" for n in range(60))
        for _ in range(3):
            await save(storage, keyless(noise))
        saved = await save(storage, keyless(f"{noise} zyzzyva"))
        assert (await found_by_words(storage, f"{noise} zyzzyva unheardof"))[0] == saved.id

    async def test_keyword_search_respects_the_scope(self, storage: Storage) -> None:
        here = await save(storage, keyless("shared word", session="s1"))
        free = await save(storage, keyless("shared word"))
        await save(storage, keyless("shared word", namespace="other"))
        await save(storage, keyless("shared word", collection="observation"))
        await save(storage, keyless("shared word", session="s2"))
        wanted = Filter(namespace="default", collections=("knowledge",), session="s1")
        assert set(await found_by_words(storage, "shared", wanted)) == {here.id, free.id}

    async def test_scope_does_not_change_the_order(self, storage: Storage) -> None:
        for text in ("alpha alpha beta", "alpha beta", "beta gamma delta"):
            await save(storage, keyless(text))
        narrow = Filter(namespace="default", collections=("knowledge",), session="s")
        assert await found_by_words(storage, "alpha", narrow) == await found_by_words(storage, "alpha")

    async def test_vector_search_returns_the_nearest_first(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = [await save(storage, keyless(f"text {n}")) for n in range(3)]
        for outcome, row in zip(saved, (vector(0, 1), vector(1, 0.1), vector(1, 1)), strict=True):
            await embed(storage, outcome, row)
        hits = await storage.search.by_vector(space.id, vector(1), ALL, 2)
        assert [hit.entry for hit in hits] == [saved[1].id, saved[2].id]
        assert hits[1].distance == pytest.approx(1 - 2**-0.5, abs=1e-6)
        exact = await storage.search.distances(space.id, vector(1), [saved[0].jobs[0].chunk, 999])
        assert exact == {saved[0].jobs[0].chunk: pytest.approx(1.0)}

    async def test_steps_receive_what_the_single_reads_return(self, storage: Storage) -> None:
        space, search = await serving_space(storage), storage.search
        for number in range(3):
            turn = keyless(f"turn {number}", collection="observation", session="talk")
            await embed(storage, await save(storage, turn), vector(1, number))
        near = QueryVector(space.id, vector(1))

        def steps() -> Steps[list[Any]]:
            nearest = yield Nearest(ALL, 2)
            chunks = [hit.chunk for hit in nearest]
            return [nearest, (yield Distances(chunks)), (yield Texts(chunks, ALL))]

        nearest, distances, texts = await search.follow(steps, near)
        again = await search.by_vector(space.id, near.query, ALL, 2)
        chunks = [hit.chunk for hit in again]
        assert [(hit.chunk, hit.entry) for hit in nearest] == [(hit.chunk, hit.entry) for hit in again]
        # Vectors in memory are measured by other code than those in the table.
        assert [hit.distance for hit in nearest] == pytest.approx([hit.distance for hit in again], abs=1e-6)
        assert distances == pytest.approx(await search.distances(space.id, near.query, chunks), abs=0.01)
        assert texts == await search.resolve(chunks, ALL)

    async def test_neighbouring_turns_come_with_their_distances(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = []
        for number in range(3):
            turn = keyless(f"turn {number}", collection="observation", session="talk")
            saved.append(await save(storage, turn))
            await embed(storage, saved[-1], vector(1, number))
        first, middle, last = (each.jobs[0].chunk for each in saved)
        around = await with_turns(storage, [middle], ALL, QueryVector(space.id, vector(1)))
        expected = await storage.search.distances(space.id, vector(1), [first, last])
        assert around.distances == pytest.approx(expected, abs=1e-6)
        assert set(expected) == {first, last}

    async def test_steps_without_a_query_vector_read_texts(self, storage: Storage) -> None:
        await save(storage, keyless("a whale"))
        chunks = [hit.chunk for hit in (await storage.search.by_words("whale", ALL, 5)).hits]

        def steps() -> Steps[dict[int, ResolvedChunk]]:
            texts: dict[int, ResolvedChunk] = yield Texts(chunks, ALL)
            return texts

        texts = await storage.search.follow(steps, None)
        assert [each.content for each in texts.values()] == ["a whale"]

    @pytest.mark.parametrize("crowd", [0, 400])
    async def test_filters_apply_before_the_limit(self, storage: Storage, crowd: int) -> None:
        """With a crowd, the set of matching ids is large instead of small; both code paths must agree."""
        space = await serving_space(storage)
        wanted_ids = []
        for number in range(3 + crowd):
            saved = await save(
                storage,
                keyless(f"text {number}", agent="a", attributes={"category": "rule", "tags": ["x", "y"]}),
            )
            await embed(storage, saved, vector(1, 1))
            wanted_ids.append(saved.id)
        for number in range(20):
            await embed(
                storage, await save(storage, keyless(f"text near {number}")), vector(1, 0.01 * number)
            )
        wanted = replace(ALL, agent="a", category="rule", tags=("x", "y"))
        by_meaning = await storage.search.by_vector(space.id, vector(1), wanted, 5)
        assert {hit.entry for hit in by_meaning} <= set(wanted_ids)
        assert len(by_meaning) == min(5, len(wanted_ids))
        assert set(await found_by_words(storage, "text", wanted)) <= set(wanted_ids)
        assert len(await found_by_words(storage, "text", wanted)) == min(50, len(wanted_ids))

    @pytest.mark.parametrize("crowd", [0, 400])
    async def test_a_filter_may_have_lists_of_the_greatest_length(self, storage: Storage, crowd: int) -> None:
        space = await serving_space(storage)
        tags = [f"tag {number}" for number in range(MAX_LISTED["tags"])]
        for number in range(1 + crowd):
            saved = await save(storage, keyless(f"text {number}", attributes={"tags": tags}))
            await embed(storage, saved, vector(1, 1))
        names = ("knowledge", *(f"c{number}" for number in range(MAX_LISTED["collections"] - 1)))
        wanted = replace(ALL, collections=names, tags=tuple(tags))
        assert len(await found_by_words(storage, "text", wanted)) == min(50, 1 + crowd)
        assert len(await storage.search.by_vector(space.id, vector(1), wanted, 5)) == min(5, 1 + crowd)
        assert len((await storage.entries.list_entries(wanted, limit=9))[0]) == min(9, 1 + crowd)

    @pytest.mark.parametrize("outsiders", [0, 5, 60])
    async def test_untrusted_entries_do_not_use_up_the_limit(self, storage: Storage, outsiders: int) -> None:
        space = await serving_space(storage)
        for number in range(outsiders):
            text = f"crane crane crane {number}"
            await embed(storage, await save(storage, keyless(text, trust="external")), vector(1))
        ours = [
            await save(storage, keyless(f"a crane on the hill {number}", trust=trust))
            for number, trust in enumerate(("agent", "operator", "agent"))
        ]
        for saved in ours:
            await embed(storage, saved, vector(0, 1))
        trusted = replace(ALL, trust=("agent", "operator"))
        expected = {saved.id for saved in ours}
        hits = await storage.search.by_vector(space.id, vector(1), trusted, 3)
        assert {hit.entry for hit in hits} == expected
        assert {hit.entry for hit in (await storage.search.by_words("crane", trusted, 3)).hits} == expected

    async def test_time_and_trust_filters(self, storage: Storage, clock: ManualClock) -> None:
        old = await save(storage, keyless("word one", trust="external"))
        clock.now += HOUR_MS
        new = await save(storage, keyless("word two"))
        assert await found_by_words(storage, "word", replace(ALL, since=START_MS + 1)) == [new.id]
        assert await found_by_words(storage, "word", replace(ALL, until=START_MS + 1)) == [old.id]
        assert await found_by_words(storage, "word", replace(ALL, trust=("agent", "operator"))) == [new.id]

    async def test_a_session_sees_its_own_entries_and_those_without_a_session(self, storage: Storage) -> None:
        space = await serving_space(storage)
        ids = {}
        for session in ("s1", "s2", ""):
            saved = await save(storage, keyless("text", session=session))
            await embed(storage, saved)
            ids[session] = saved.id
        hits = await storage.search.by_vector(space.id, vector(1), replace(ALL, session="s1"), 10)
        assert {hit.entry for hit in hits} == {ids["s1"], ids[""]}

    async def test_resolve_returns_the_current_text_of_matching_chunks(self, storage: Storage) -> None:
        spans = (Span(0, 6), Span(4, 11))
        saved = await save(storage, keyless("hello world", spans=spans))
        hits = (await storage.search.by_words("hello world", ALL, 10)).hits
        resolved = await storage.search.resolve([hit.chunk for hit in hits] + [12345], ALL)
        assert sorted((r.start, r.end, r.content) for r in resolved.values()) == [
            (0, 6, "hello "),
            (4, 11, "o world"),
        ]
        assert {r.entry.id for r in resolved.values()} == {saved.id}
        assert (
            await storage.search.resolve([hit.chunk for hit in hits], replace(ALL, namespace="other")) == {}
        )


CUES = ("Can I ship before the weekend?", "writing a rollout plan")


def cued(*cues: str, **changes: Any) -> Draft:
    return draft(attributes={"category": "fact", "tags": ["ops"], "cues": list(cues)}, **changes)


class CueConformance:
    async def test_the_words_of_a_cue_find_its_entry(self, storage: Storage) -> None:
        saved = await save(storage, cued(*CUES, spans=(Span(0, 10), Span(10, 31))))
        hits = (await storage.search.by_words("ship at the weekend", ALL, 5)).hits
        assert [hit.entry for hit in hits if hit.cue] == [saved.id]
        resolved = await storage.search.resolve([hit.chunk for hit in hits], ALL)
        assert {hit.chunk: resolved[hit.chunk].start for hit in hits if hit.cue} == {hits[0].chunk: 0}
        await assert_sound(storage)

    async def test_the_vector_of_a_cue_finds_its_entry(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = await save(storage, cued(*CUES))
        assert [job.text for job in saved.jobs] == ["deploy ops\nThe deploy window is on Tuesday.", *CUES]
        await embed(storage, saved, vector(0, 1), vector(1), vector(0, 0, 1))
        hits = await storage.search.by_vector(space.id, vector(1), ALL, 5)
        text = saved.jobs[0].chunk
        assert [(hit.chunk, hit.cue, round(hit.distance, 6)) for hit in hits] == [
            (text, saved.jobs[1].chunk, 0.0),
            (text, 0, 1.0),
        ]
        await assert_sound(storage)

    @pytest.mark.parametrize("crowd", [3, 300])
    async def test_cues_do_not_crowd_out_other_entries(self, storage: Storage, crowd: int) -> None:
        space = await serving_space(storage)
        cues = [f"shared words {number}" for number in range(8)]
        for number in range(crowd):
            each = await save(storage, cued(*cues, key=f"cued-{number}"))
            await embed(storage, each, *[vector(1)] * 9)
        bare = await save(storage, keyless("words of its own"))
        await embed(storage, bare, vector(1, 0.1))
        limit = 4 if crowd == 3 else 40
        near = await storage.search.by_vector(space.id, vector(1), ALL, limit)
        assert len({hit.entry for hit in near}) == min(limit, crowd + 1)
        if crowd == 3:
            assert bare.id in {hit.entry for hit in near}
            assert bare.id in await found_by_words(storage, "words")

    async def test_cues_are_never_shown_as_passages(self, storage: Storage) -> None:
        saved = await save(storage, cued(*CUES))
        pages = await storage.search.sample_chunks(10)
        assert [each.text for each in pages] == ["The deploy window is on Tuesday."]
        every = await storage.search.resolve(range(1, 50), ALL)
        assert [(each.entry.id, each.content) for each in every.values()] == [
            (saved.id, "The deploy window is on Tuesday.")
        ]
        assert storage.scrub.failures == 0

    async def test_changed_cues_create_a_version_and_old_cues_find_nothing(self, storage: Storage) -> None:
        space = await serving_space(storage)
        first = await save(storage, cued(*CUES))
        await embed(storage, first, vector(0, 1), vector(1), vector(1))
        second = await save(storage, cued("asking about zebras"))
        assert (second.id, second.version, second.change) == (first.id, 2, Change.ATTRIBUTES)
        assert [job.text for job in second.jobs] == ["asking about zebras"], "the text keeps its vector"
        assert await found_by_words(storage, "weekend") == []
        assert await found_by_words(storage, "zebras") == [first.id]
        nearest = await storage.search.by_vector(space.id, vector(1), ALL, 5)
        assert [hit.cue for hit in nearest] == [0]
        await embed(storage, second)
        assert (await save(storage, cued("asking about zebras"))).change is Change.NONE
        third = await save(storage, draft())
        assert third.version == 3
        assert await found_by_words(storage, "zebras") == []
        await assert_sound(storage)

    async def test_changed_labels_leave_the_cues_alone(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, cued(*CUES))
        await embed(storage, saved, *[vector(1)] * 3)
        relabeled = cued(*CUES, labels="release", header="release", agent="planner")
        tagged = {**relabeled.attributes, "tags": ["release"]}
        again = await save(storage, replace(relabeled, attributes=tagged))
        assert again.change is Change.ATTRIBUTES
        assert [job.text for job in again.jobs] == ["release\nThe deploy window is on Tuesday."]
        assert await found_by_words(storage, "weekend") == [saved.id]
        await assert_sound(storage)

    async def test_forgetting_an_entry_removes_its_cues(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = await save(storage, cued(*CUES))
        await embed(storage, saved, *[vector(1)] * 3)
        await storage.entries.delete(saved.id)
        assert await found_by_words(storage, "weekend") == []
        assert await storage.search.by_vector(space.id, vector(1), ALL, 5) == []
        census = await storage.upkeep.census()
        assert (census.chunks, census.vectors, census.violations) == (0, 0, 0)

    async def test_a_turn_with_cues_still_counts_as_a_turn(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        turns = []
        for text in ("before", "here", "after"):
            clock.now += 1_000
            turn = cued(*CUES, content=text, key=None, collection="observation", session="talk")
            turns.append(await save(storage, turn))
        chunks = [
            next(hit.chunk for hit in (await storage.search.by_words(text, ALL, 5)).hits)
            for text in ("before", "here", "after")
        ]
        assert (await with_turns(storage, [chunks[1]], ALL)).turns[chunks[1]] == {
            -1: chunks[0],
            1: chunks[2],
        }

    async def test_cues_count_towards_stored_bytes(self, storage: Storage) -> None:
        before = (await storage.usage.of(1000)).stored_bytes
        await save(storage, draft())
        bare = (await storage.usage.of(1000)).stored_bytes
        await save(storage, cued(*CUES, key="other"))
        cues = sum(len(cue.encode()) for cue in CUES)
        assert (await storage.usage.of(1000)).stored_bytes - bare >= bare - before + cues


class JobConformance:
    async def test_saving_without_embedding_creates_no_job(self, storage: Storage) -> None:
        await storage.spaces.open(FINGERPRINT)
        assert (await storage.entries.save(draft(), embed=False)).jobs == ()
        assert (await storage.jobs.depth()).pending == 0

    async def test_saving_without_a_space_creates_no_job(self, storage: Storage) -> None:
        saved = await save(storage, draft())
        assert (saved.jobs, saved.embedded, saved.pending) == ((), False, False)

    async def test_every_chunk_gets_a_job_with_its_text(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft("hello world", spans=(Span(0, 6), Span(6, 11)), header="key"))
        assert [job.text for job in saved.jobs] == ["key\nhello ", "key\nworld"]
        assert (saved.embedded, saved.pending) == (True, True)
        claimed = await storage.jobs.claim(10, now=START_MS, lease_until=START_MS + 1)
        assert claimed == list(saved.jobs)

    async def test_completing_jobs_stores_vectors_and_removes_the_jobs(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        assert await embed(storage, saved) == 1
        assert (await storage.jobs.depth()).pending == 0
        assert not (await storage.entries.get(saved.id)).pending  # type: ignore[union-attr]
        assert await embed(storage, saved) == 0, "a second reply to the same job is stale"
        census = await storage.upkeep.census()
        assert (census.vectors, census.violations) == (1, 0)

    async def test_a_vector_for_replaced_text_is_dropped(self, storage: Storage) -> None:
        space = await serving_space(storage)
        first = await save(storage, draft("old text"))
        second = await save(storage, draft("new text"))
        assert await embed(storage, first, vector(0, 1)) == 0
        assert await storage.search.by_vector(space.id, vector(1), ALL, 5) == []
        assert await embed(storage, second, vector(1)) == 1
        await assert_sound(storage)

    async def test_a_vector_for_a_changed_header_is_dropped(self, storage: Storage) -> None:
        await serving_space(storage)
        first = await save(storage, draft())
        second = await save(storage, draft(attributes={"category": "rule"}, header="other"))
        assert await embed(storage, first) == 0
        assert await embed(storage, second) == 1

    async def test_a_vector_for_a_deleted_entry_is_dropped(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = await save(storage, draft())
        await storage.entries.delete(saved.id)
        assert await embed(storage, saved) == 0
        assert await storage.search.by_vector(space.id, vector(1), ALL, 5) == []
        await assert_sound(storage)

    async def test_claims_are_leased_oldest_first(self, storage: Storage) -> None:
        await serving_space(storage)
        jobs = [(await save(storage, keyless(f"text {n}"))).jobs[0] for n in range(4)]
        assert await storage.jobs.claim(2, now=START_MS, lease_until=START_MS + 10) == jobs[:2]
        claimed = await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 10, exclude=[jobs[2].id])
        assert claimed == jobs[3:]
        assert await storage.jobs.next_due(START_MS) == START_MS + 10
        assert await storage.jobs.claim(5, now=START_MS + 10, lease_until=START_MS + 20) == jobs
        await storage.jobs.release_leases()
        assert len(await storage.jobs.claim(5, now=START_MS + 10, lease_until=START_MS + 20)) == 4

    async def test_postponed_jobs_wait_and_count_attempts(self, storage: Storage) -> None:
        await serving_space(storage)
        job = (await save(storage, draft())).jobs[0]
        await storage.jobs.postpone([job], not_before=START_MS + 50, error="provider down")
        assert await storage.jobs.claim(5, now=START_MS + 49, lease_until=START_MS + 99) == []
        assert await storage.jobs.next_due(START_MS) == START_MS + 50
        assert await storage.jobs.claim(5, now=START_MS + 50, lease_until=START_MS + 99) == [
            replace(job, attempts=1)
        ]

    async def test_buried_jobs_are_listed_and_retried(self, storage: Storage) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        await storage.jobs.bury(saved.jobs[0], "refused by the model")
        assert await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9) == []
        depth = await storage.jobs.depth()
        assert (depth.pending, depth.buried, depth.oldest) == (0, 1, None)
        (row,) = await storage.jobs.buried()
        assert (row.entry, row.reason, row.attempts) == (saved.id, "refused by the model", 1)
        await assert_sound(storage)
        assert await storage.jobs.retry_buried() == 1
        assert await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9) == list(saved.jobs)

    async def test_depth_reports_the_oldest_job(self, storage: Storage, clock: ManualClock) -> None:
        await serving_space(storage)
        await save(storage, keyless("one"))
        clock.now += 70
        await save(storage, keyless("two"))
        depth = await storage.jobs.depth()
        assert (depth.pending, depth.oldest) == (2, START_MS)


class SpaceConformance:
    async def test_the_first_space_is_active_and_enabled(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        assert (space.state, space.enabled, space.dimension) == (SpaceState.ACTIVE, True, None)
        assert (await storage.spaces.open(FINGERPRINT)).id == space.id
        prepared = await storage.spaces.prepare(space.id, vector(1))
        assert prepared.dimension == 4
        assert prepared.canary is not None
        assert prepared.canary.tolist() == [1, 0, 0, 0]

    async def test_saves_before_the_first_probe_get_jobs(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        saved = await save(storage, draft())
        assert saved.pending
        await assert_sound(storage)
        await storage.spaces.prepare(space.id, vector(1))
        assert await embed(storage, saved) == 1

    async def test_a_new_model_gets_a_separate_space(self, storage: Storage) -> None:
        old = await serving_space(storage)
        await embed(storage, await save(storage, draft()))
        new = await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert (new.state, new.id != old.id) == (SpaceState.BUILDING, True)
        await storage.spaces.prepare(new.id, vector(0, 1))
        await assert_sound(storage)
        assert await storage.spaces.backfill(new.id) == 0, "opening the space created all jobs"
        assert await storage.spaces.pending(new.id) == 1
        jobs: list[Job] = await storage.jobs.claim(9, now=START_MS, lease_until=START_MS + 1)
        assert {job.space for job in jobs} == {new.id}
        await storage.jobs.complete(jobs, vectors(vector(0, 1)))
        assert (await storage.spaces.activate(new.id)).state is SpaceState.ACTIVE
        hits = await storage.search.by_vector(new.id, vector(0, 1), ALL, 5)
        assert [round(hit.distance, 5) for hit in hits] == [0]
        assert await self.states(storage) == {old.id: SpaceState.KEPT, new.id: SpaceState.ACTIVE}
        assert (await storage.spaces.open(FINGERPRINT)).id == old.id, "nobody asked to drop it"
        assert await storage.spaces.pending(old.id) == 0
        with pytest.raises(Conflict, match="not active"):
            await storage.spaces.retire_former(old.id)
        await storage.spaces.open({**FINGERPRINT, "model": "two"})
        assert await storage.spaces.retire_former(new.id) == [old.id]
        with pytest.raises(Conflict, match="is retired"):
            await storage.spaces.activate(old.id)
        again = await storage.spaces.open(FINGERPRINT)
        assert (again.id not in (old.id, new.id), again.generation) == (True, 2), (
            "a retired space is not reused"
        )
        assert await storage.spaces.pending(again.id) == 1
        await assert_sound(storage)

    async def test_a_silently_changed_model_gets_a_new_generation(self, storage: Storage) -> None:
        old = await serving_space(storage)
        await embed(storage, await save(storage, draft()))
        renewed = await storage.spaces.renew(old.id)
        assert (renewed.generation, renewed.state, renewed.enabled) == (2, SpaceState.BUILDING, True)
        assert (await storage.spaces.open(FINGERPRINT)).id == renewed.id
        assert await storage.spaces.pending(renewed.id) == 1
        await assert_sound(storage)
        await storage.spaces.prepare(renewed.id, vector(1))
        await storage.spaces.activate(renewed.id)
        assert await self.states(storage) == {old.id: SpaceState.RETIRED, renewed.id: SpaceState.ACTIVE}
        await assert_sound(storage)

    async def test_reenabling_embedding_backfills_missing_vectors(self, storage: Storage) -> None:
        space = await serving_space(storage)
        await embed(storage, await save(storage, keyless("one")))
        await save(storage, keyless("two"))
        await storage.spaces.disable_all()
        await save(storage, keyless("three"))
        assert (await storage.jobs.depth()).pending == 0
        await assert_sound(storage)
        assert (await storage.spaces.open(FINGERPRINT)).id == space.id
        assert await storage.spaces.pending(space.id) == 2
        await assert_sound(storage)

    async def test_every_save_creates_a_job_in_each_of_two_spaces(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert (first.state, second.state) == (SpaceState.ACTIVE, SpaceState.BUILDING)
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        assert {job.space for job in saved.jobs} == {first.id, second.id}
        for space in (first, second):
            (job,) = await storage.jobs.claim(5, now=START_MS, lease_until=START_MS + 9, space=space.id)
            assert job.space == space.id
            assert await storage.jobs.next_due(START_MS, space.id) == START_MS + 9
        await storage.jobs.release_leases(first.id)
        assert await storage.jobs.next_due(START_MS, first.id) is None
        assert await storage.jobs.next_due(START_MS, second.id) == START_MS + 9

    async def test_only_the_active_space_makes_an_entry_pending(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        (own,) = [job for job in saved.jobs if job.space == first.id]
        await storage.jobs.complete([own], vectors(vector(1)))
        entry = await storage.entries.get(saved.id)
        assert entry is not None
        assert not entry.pending
        assert (await storage.jobs.depth()).pending == 0
        backlog = await storage.spaces.total_pending(second.id)
        assert (backlog.pending, backlog.buried) == (1, 0)
        assert backlog.bytes >= len(draft().content.encode())
        await assert_sound(storage)

    async def test_a_space_can_be_switched_kept_and_retired(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        for space in (first, second):
            await storage.spaces.prepare(space.id, vector(1))
        saved = await save(storage, draft())
        with pytest.raises(Conflict):
            await storage.spaces.activate(second.id, max_pending=0)
        for job in saved.jobs:
            await storage.jobs.complete([job], vectors(vector(1)))
        await storage.spaces.activate(second.id, max_pending=0)
        assert await self.states(storage) == {first.id: SpaceState.KEPT, second.id: SpaceState.ACTIVE}
        again = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert [space.state for space in again] == [SpaceState.KEPT, SpaceState.ACTIVE]
        await storage.spaces.activate(first.id, max_pending=0)
        assert await self.states(storage) == {first.id: SpaceState.ACTIVE, second.id: SpaceState.KEPT}
        assert await storage.spaces.retire_former(first.id) == [second.id]
        assert await storage.spaces.retire_former(first.id) == []
        assert len((await save(storage, draft("another text"))).jobs) == 1
        await assert_sound(storage)

    async def test_a_building_space_is_not_retired(self, storage: Storage) -> None:
        first, _ = await storage.spaces.open_all([FINGERPRINT, OTHER])
        assert await storage.spaces.retire_former(first.id) == []

    async def test_a_silent_model_change_leaves_other_spaces_alone(self, storage: Storage) -> None:
        first, second = await storage.spaces.open_all([FINGERPRINT, OTHER])
        renewed = await storage.spaces.renew(first.id)
        enabled = {space.id for space in await storage.spaces.all() if space.enabled}
        assert enabled == {renewed.id, second.id}

    async def test_a_space_remembers_its_approval_and_comparison(self, storage: Storage) -> None:
        space = await storage.spaces.open(FINGERPRINT)
        assert (space.approved, space.comparison) == (False, None)
        await storage.spaces.approve(space.id)
        await storage.spaces.record_comparison(space.id, {"overlap": 0.5})
        (known,) = await storage.spaces.all()
        assert (known.approved, known.comparison) == (True, {"overlap": 0.5})

    async def test_a_sample_is_spread_over_all_live_chunks(self, storage: Storage) -> None:
        saved = [await save(storage, keyless(f"text {number}")) for number in range(9)]
        await save(storage, draft("elsewhere", namespace="other"))
        assert len(await storage.search.sample_chunks(50)) == 10
        drawn = await storage.search.sample_chunks(5)
        assert [each.text for each in drawn] == [f"text {number}" for number in (0, 2, 4, 6, 8)]
        assert (drawn[0].entry, drawn[0].namespace) == (saved[0].id, "default")

    async def states(self, storage: Storage) -> dict[int, SpaceState]:
        return {space.id: space.state for space in await storage.spaces.all()}

    async def test_deleting_entries_while_a_space_is_disabled_leaves_no_vectors(
        self, storage: Storage
    ) -> None:
        await serving_space(storage)
        saved = await save(storage, draft())
        await embed(storage, saved)
        await storage.spaces.disable_all()
        await storage.entries.delete(saved.id)
        await assert_sound(storage)


class ConversationConformance:
    """What ranking needs from an engine: neighbouring turns, and how common terms and entries are."""

    async def test_neighbouring_turns_are_returned_in_order(self, storage: Storage) -> None:
        chunks = [await _save_turn(storage, f"turn {number}") for number in range(5)]
        around = (await with_turns(storage, [chunks[2], chunks[0]], ALL)).turns
        assert around == {
            chunks[2]: {-2: chunks[0], -1: chunks[1], 1: chunks[3], 2: chunks[4]},
            chunks[0]: {1: chunks[1], 2: chunks[2]},
        }

    async def test_neighbouring_turns_come_with_rankable_text(self, storage: Storage) -> None:
        chunks = [
            await _save_turn(storage, f"turn {number}", labels=f"label {number}") for number in range(3)
        ]
        found = await with_turns(storage, [chunks[1]], ALL)
        assert found.texts[chunks[1]].content == "turn 1"
        for number in (0, 2):
            # An engine may return the whole text of a neighbour instead.
            if chunks[number] not in found.texts:
                said = found.beside[chunks[number]]
                assert (said.text, said.agent, said.labels) == (f"turn {number}", "a", f"label {number}")

    async def test_neighbours_are_limited_to_what_the_filter_allows(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        chunks = [
            await _save_turn(storage, "first"),
            await _save_turn(storage, "expiring", expires=clock.now + 10),
            await _save_turn(storage, "theirs", trust="external"),
            await _save_turn(storage, "asked"),
            await _save_turn(storage, "elsewhere", namespace="other"),
            await _save_turn(storage, "another session", session="t"),
            await _save_turn(storage, "last"),
        ]
        clock.now += 20
        agents_only = Filter(namespace="default", trust=("agent",))
        around = (await with_turns(storage, [chunks[3]], agents_only)).turns
        assert around == {chunks[3]: {-1: chunks[0], 1: chunks[6]}}

    async def test_notes_knowledge_and_long_texts_are_not_turns(self, storage: Storage) -> None:
        alone = await _save_turn(storage, "a note", session="alone")
        long = "word " * 60
        spans = (Span(0, 150), Span(140, len(long)))
        chunks = [await _save_turn(storage, f"turn {n}") for n in range(2)]
        cut = await _save_turn(storage, long, spans=spans)
        chunks += [await _save_turn(storage, f"turn {n}") for n in range(2, 4)]
        fact = await _save_turn(storage, "a fact", collection="knowledge")
        around = (await with_turns(storage, [alone, cut, fact, chunks[1]], ALL)).turns
        assert around == {chunks[1]: {-1: chunks[0], 2: chunks[2]}}

    async def test_term_counts_are_chunks_that_contain_the_term(self, storage: Storage) -> None:
        for text in ("red apple", "red pear", "green config.yaml"):
            await save(storage, keyless(text))
        counted = (await storage.search.by_words("Is red in config.yaml or purple?", ALL, 5)).counts
        assert counted.chunks == 3
        assert counted.counts == {"red": 2, "config.yaml": 1, "purple": 0}

    async def test_live_entries_are_counted_per_namespace(self, storage: Storage) -> None:
        saved = await save(storage, keyless("one"))
        await save(storage, keyless("two"))
        await save(storage, keyless("theirs", namespace="other"))
        await storage.entries.delete(saved.id)
        assert await storage.search.count_entries("default") == 1
        assert await storage.search.count_entries("nowhere") == 0


async def _save_turn(storage: Storage, text: str, **changes: Any) -> int:
    """Save an observation; return the id of its first chunk."""
    fields = {"collection": "observation", "session": "s", "agent": "a", **changes}
    saved = await save(storage, keyless(text, **fields))
    wanted = Filter(namespace=str(fields.get("namespace", "default")), session=str(fields["session"]))
    hits = (await storage.search.by_words(text[:40], wanted, 50)).hits
    return min(hit.chunk for hit in hits if hit.entry == saved.id)


class StorageConformance(
    EntryConformance,
    SearchConformance,
    CueConformance,
    JobConformance,
    SpaceConformance,
    ConversationConformance,
):
    """Every part of the suite."""
