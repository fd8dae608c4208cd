from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.rag.fuse import Candidate
from agentctx.rag.select import distinct_texts, select


def candidate(chunk: int, entry: str = "", distance: float | None = 0.5) -> Candidate:
    return Candidate(chunk, entry or f"entry-{chunk}", 1.0, distance)


def chunks(candidates: list[Candidate]) -> list[int]:
    return [candidate.chunk for candidate in candidates]


class TestSelect:
    def test_takes_the_first_in_the_order_given(self) -> None:
        ranked = [candidate(chunk) for chunk in (4, 2, 9, 1)]
        assert chunks(select(ranked, limit=3, max_per_entry=2)) == [4, 2, 9]

    def test_an_entry_fills_only_its_share_and_the_next_take_its_place(self) -> None:
        ranked = [
            candidate(1, "a"),
            candidate(2, "a"),
            candidate(3, "a"),
            candidate(4, "b"),
            candidate(5, "c"),
        ]
        assert chunks(select(ranked, limit=4, max_per_entry=2)) == [1, 2, 4, 5]

    def test_a_floor_drops_what_is_beyond_it_and_keeps_what_is_on_it(self) -> None:
        ranked = [candidate(1, distance=0.9), candidate(2, distance=0.6), candidate(3, distance=0.61)]
        assert chunks(select(ranked, limit=5, max_per_entry=2, max_distance=0.6)) == [2]

    def test_what_is_beyond_the_floor_takes_no_share_of_its_entry(self) -> None:
        ranked = [candidate(1, "a", 0.9), candidate(2, "a", 0.2)]
        assert chunks(select(ranked, limit=5, max_per_entry=1, max_distance=0.6)) == [2]

    def test_no_floor_keeps_even_the_opposite(self) -> None:
        assert chunks(select([candidate(1, distance=2.0)], limit=5, max_per_entry=2)) == [1]

    def test_a_hit_without_vector_passes_a_floor_only_when_nothing_is_measured(self) -> None:
        ranked = [candidate(1, distance=None), candidate(2, distance=0.1)]
        kept = select(ranked, limit=5, max_per_entry=2, max_distance=0.6, keep_unmeasured=True)
        assert chunks(kept) == [1, 2]
        strict = select(ranked, limit=5, max_per_entry=2, max_distance=0.6, keep_unmeasured=False)
        assert chunks(strict) == [2]

    def test_without_a_floor_a_hit_without_vector_always_passes(self) -> None:
        ranked = [candidate(1, distance=None)]
        assert chunks(select(ranked, limit=5, max_per_entry=2, keep_unmeasured=False)) == [1]

    @given(st.lists(st.sampled_from("abcd")), st.integers(0, 8), st.integers(1, 3))
    def test_the_answer_is_full_when_enough_exist(self, entries: list[str], limit: int, share: int) -> None:
        ranked = [candidate(chunk, entry) for chunk, entry in enumerate(entries)]
        available = sum(min(entries.count(entry), share) for entry in set(entries))
        assert len(select(ranked, limit=limit, max_per_entry=share)) == min(limit, available)


class TestDistinctTexts:
    def test_drops_a_text_contained_in_an_earlier_one_of_its_entry(self) -> None:
        ranked = [candidate(1, "a"), candidate(2, "a")]
        assert chunks(distinct_texts(ranked, {1: "one two three", 2: "two"})) == [1]

    def test_keeps_partial_overlaps_and_later_texts_that_say_more(self) -> None:
        ranked = [candidate(1, "a"), candidate(2, "a"), candidate(3, "a")]
        assert chunks(distinct_texts(ranked, {1: "one two", 2: "two three", 3: "one two three"})) == [1, 2, 3]

    def test_the_same_words_in_another_entry_are_another_source(self) -> None:
        assert chunks(distinct_texts([candidate(1, "a"), candidate(2, "b")], {1: "same", 2: "same"})) == [
            1,
            2,
        ]

    def test_a_dropped_text_hides_nothing(self) -> None:
        assert chunks(distinct_texts([candidate(1, "a"), candidate(2, "a")], {2: "text"})) == [1, 2]
