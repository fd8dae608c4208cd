"""Cues find their entry and are never shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentctx.storage.base import Storage
from agentctx.storage.records import Change, Draft
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import (
    ALL,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
    with_turns,
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
        before = (await storage.usage(1000)).stored_bytes
        await save(storage, draft())
        bare = (await storage.usage(1000)).stored_bytes
        await save(storage, cued(*CUES, key="other"))
        cues = sum(len(cue.encode()) for cue in CUES)
        assert (await storage.usage(1000)).stored_bytes - bare >= bare - before + cues
