"""What ranking needs from an engine: neighbouring turns, and how common terms and entries are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentctx.storage.base import Storage
from agentctx.storage.search import Filter
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import ALL, ManualClock, keyless, save, with_turns


class ConversationConformance:
    async def test_neighbouring_turns_are_returned_in_order(self, storage: Storage) -> None:
        chunks = [await _save_turn(storage, f"turn {number}") for number in range(5)]
        around = (await with_turns(storage, [chunks[2], chunks[0]], ALL)).turns
        assert around == {
            chunks[2]: {-2: chunks[0], -1: chunks[1], 1: chunks[3], 2: chunks[4]},
            chunks[0]: {1: chunks[1], 2: chunks[2]},
        }

    async def test_passages_and_their_turns_have_the_traits_that_ranking_uses(self, storage: Storage) -> None:
        asks = await _save_turn(storage, "Ann: Did the courier come last week?", agent="")
        chunks = [
            asks,
            *[
                await _save_turn(storage, f"turn {number}", labels=f"{label} a")
                for number, label in enumerate(["red", "blue"])
            ],
        ]
        found = (await with_turns(storage, [asks], ALL, question="courier blue planner")).traits
        assert set(found) == set(chunks)
        first, _, last = (found[chunk] for chunk in chunks)
        assert (first.words, first.speaker, first.asks, first.times) == (7, "Ann", True, 2)
        assert (last.words, last.speaker, last.asks, last.times) == (2, "a", False, 0)
        assert (len(first.found), len(last.found)) == (1, 1)

    async def test_cues_count_as_words_of_the_text_to_which_they_lead(self, storage: Storage) -> None:
        cued = keyless("the plan", attributes={"category": "fact", "cues": ["how to release"]})
        saved = await save(storage, cued)
        (hit,) = (await storage.search.by_words("plan", ALL, 5)).hits
        (traits,) = (await with_turns(storage, [hit.chunk], ALL, question="release")).traits.values()
        assert (traits.entry, len(traits.found)) == (saved.id, 1)

    async def test_a_chunk_that_the_filter_excludes_has_no_traits(self, storage: Storage) -> None:
        mine, other = await _save_turn(storage, "mine"), await _save_turn(storage, "other", namespace="other")
        assert set((await with_turns(storage, [mine, other], ALL)).traits) == {mine}

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

    async def test_the_newest_are_listed_without_a_question(self, storage: Storage) -> None:
        old, new = [await save(storage, keyless(text)) for text in ("one", "two")]
        rule = await save(storage, keyless("three", collection="knowledge", attributes={"category": "rule"}))
        cut = await save(storage, keyless("four five", spans=[Span(0, 4), Span(5, 9)]))
        await save(storage, keyless("theirs", namespace="other"))
        listed = await storage.search.newest(ALL, 4)
        assert [entry for _, entry in listed] == [cut.id, cut.id, rule.id, new.id]
        found = await storage.search.resolve([chunk for chunk, _ in listed], ALL)
        assert [found[chunk].content for chunk, _ in listed] == ["four", "five", "three", "two"]
        rules = await storage.search.newest(replace(ALL, category="rule"), 4)
        assert [entry for _, entry in rules] == [rule.id]
        assert await storage.search.newest(replace(ALL, until=1), 4) == []
        assert old.id not in {entry for _, entry in listed}

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
