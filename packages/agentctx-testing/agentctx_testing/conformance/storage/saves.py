"""What a save does to an entry: versions, keys, trust, expiry, repeated saves."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from agentctx.errors import Forgotten, IdempotencyKeyReused, VersionConflict
from agentctx.storage.base import Storage
from agentctx.storage.ids import BUCKETS, bucket_of
from agentctx.storage.records import Change, Entry, IdempotencyKey
from agentctx.storage.search import Filter
from agentctx.storage.versions import MAX_VERSIONS
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


class SaveConformance:
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

    async def test_what_a_key_gives_an_id_is_saved_once_for_ever(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        entry_id = "01a226a1-b5ab-75c3-bc2f-be929629208f"
        named = IdempotencyKey(1000, "k", b"digest", entry_id)
        first = await storage.entries.save(keyless("same"), embed=False, idempotency=named)
        assert (first.id, first.change) == (entry_id, Change.CREATED)
        clock.now += 25 * HOUR_MS
        await storage.entries.sweep()
        again = await storage.entries.save(keyless("other"), embed=False, idempotency=named)
        assert (again.id, again.version, again.change) == (entry_id, 1, Change.NONE)
        assert (await storage.entries.get(entry_id)).content == "same"  # type: ignore[union-attr]
        await storage.entries.delete(entry_id)
        with pytest.raises(Forgotten):
            await storage.entries.save(keyless("same"), embed=False, idempotency=named)

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
