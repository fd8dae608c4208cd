"""Search by words and by vectors, with filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentctx.storage.base import Storage
from agentctx.storage.search import MAX_LISTED, Distances, Filter, Nearest, ResolvedChunk, Steps, Texts
from agentctx.text.chunking.base import Span
from agentctx_testing.drafts import (
    ALL,
    START_MS,
    ManualClock,
    draft,
    embed,
    found_by_words,
    keyless,
    save,
    serving_space,
    vector,
    with_turns,
)

HOUR_MS = 3_600_000


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
            ("Резервная копия создаётся ночью", "когда делают резервные копии"),
            ("Yedekler her gece saat ikide alınır", "yedeklerimizi ne zaman alıyoruz"),  # noqa: RUF001
            ("Die Nummer der Versicherung steht im Ordner", "wo steht die Versicherungsnummer"),
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
        query = vector(1)

        def steps() -> Steps[list[Any]]:
            nearest = yield Nearest(query, ALL, 2)
            chunks = [hit.chunk for hit in nearest]
            return [nearest, (yield Distances(query, chunks)), (yield Texts(chunks, ALL))]

        nearest, distances, texts = await search.follow(steps, space.id)
        again = await search.by_vector(space.id, query, ALL, 2)
        chunks = [hit.chunk for hit in again]
        assert [(hit.chunk, hit.entry) for hit in nearest] == [(hit.chunk, hit.entry) for hit in again]
        # Vectors in memory are measured by other code than those in the table.
        assert [hit.distance for hit in nearest] == pytest.approx([hit.distance for hit in again], abs=1e-6)
        assert distances == pytest.approx(await search.distances(space.id, query, chunks), abs=0.01)
        assert texts == await search.resolve(chunks, ALL)

    async def test_neighbouring_turns_come_with_their_distances(self, storage: Storage) -> None:
        space = await serving_space(storage)
        saved = []
        for number in range(3):
            turn = keyless(f"turn {number}", collection="observation", session="talk")
            saved.append(await save(storage, turn))
            await embed(storage, saved[-1], vector(1, number))
        first, middle, last = (each.jobs[0].chunk for each in saved)
        around = await with_turns(storage, [middle], ALL, space.id)
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
