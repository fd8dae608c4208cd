from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.fuse import fuse, merge
from agentctx.storage.search import NearestChunk, WordHit

word_scores = st.none() | st.floats(-50, 50)
distances = st.none() | st.floats(0, 2)
candidate_lists = st.lists(
    st.builds(Candidate, st.integers(1, 10_000), st.sampled_from("abc"), word_scores, distances),
    max_size=12,
    unique_by=lambda candidate: candidate.chunk,
)


def candidate(chunk: int, word_score: float | None, distance: float | None) -> Candidate:
    return Candidate(chunk, f"entry-{chunk}", word_score, distance)


def chunks(candidates: list[Candidate]) -> list[int]:
    return [candidate.chunk for candidate in candidates]


def scores(candidates: list[Candidate]) -> dict[int, float]:
    return {candidate.chunk: candidate.score for candidate in candidates}


class TestMerge:
    def test_a_chunk_found_by_both_is_one_candidate_with_both_figures(self) -> None:
        assert merge([WordHit(1, "e", 7.0)], [NearestChunk(1, "e", 0.3)], {}) == [Candidate(1, "e", 7.0, 0.3)]

    def test_a_chunk_found_only_by_words_takes_its_exact_distance(self) -> None:
        assert merge([WordHit(1, "e", 7.0)], [], {1: 0.9}) == [Candidate(1, "e", 7.0, 0.9)]

    def test_a_score_missing_on_one_side_stays_unknown(self) -> None:
        assert merge([WordHit(1, "e", 7.0)], [NearestChunk(2, "f", 0.3)], {}) == [
            Candidate(1, "e", 7.0, None),
            Candidate(2, "f", None, 0.3),
        ]


class TestFuse:
    def test_blends_both_sides_by_the_weight(self) -> None:
        fused = fuse([candidate(1, 10, 1.0), candidate(2, 5, 0.2), candidate(3, 0, 0.6)], 0.4)
        # Words scale to 1, .5, 0 and meaning to 0, 1, .5.
        assert {chunk: round(score, 9) for chunk, score in scores(fused).items()} == {1: 0.6, 2: 0.7, 3: 0.2}
        assert chunks(fused) == [2, 1, 3]

    def test_the_weight_moves_the_ranking_from_words_to_meaning(self) -> None:
        both = [candidate(1, 10, 1.0), candidate(2, 5, 0.2)]
        assert chunks(fuse(both, 0.0)) == [1, 2]
        assert chunks(fuse(both, 1.0)) == [2, 1]

    def test_a_passage_without_the_words_scores_zero_by_words(self) -> None:
        fused = scores(fuse([candidate(1, 10, 0.4), candidate(2, None, 0.2), candidate(3, 5, 0.4)], 0.4))
        assert (fused[1], fused[2], fused[3]) == (0.6, 0.4, 0.3)

    def test_a_passage_without_vector_is_ranked_by_words_alone(self) -> None:
        fresh, embedded, alike = candidate(1, 10, None), candidate(2, 9, 0.1), candidate(3, 5, None)
        ranked = fuse([embedded, alike, fresh], 0.5)
        assert [each.chunk for each in ranked] == [1, 2, 3]
        assert scores(ranked)[1] == 1.0
        assert scores(ranked)[3] == 0.5

    def test_without_any_vector_the_words_alone_decide(self) -> None:
        fused = fuse([candidate(1, 3, None), candidate(2, 9, None)])
        assert scores(fused) == {2: 1.0, 1: pytest.approx(1 / 3)}
        assert chunks(fused) == [2, 1]

    def test_without_any_word_meaning_alone_decides(self) -> None:
        assert scores(fuse([candidate(1, None, 0.8), candidate(2, None, 0.1)])) == {2: 1.0, 1: 0.0}

    def test_a_single_hit_has_the_full_score(self) -> None:
        assert scores(fuse([candidate(1, 3, 0.5)])) == {1: 1.0}

    def test_the_only_word_hit_gets_the_whole_share_of_words(self) -> None:
        fused = scores(fuse([candidate(1, 3, 1.0), candidate(2, None, 0.0)], 0.4))
        assert fused == {1: 0.6, 2: 0.4}

    def test_ties_go_to_the_nearer_then_to_the_older_chunk(self) -> None:
        same_words = [
            candidate(9, 1, None),
            candidate(3, 1, None),
            candidate(7, 1, 0.9),
            candidate(8, 1, 0.2),
        ]
        assert chunks(fuse(same_words, 0.0)) == [8, 7, 3, 9]

    def test_nothing_gives_nothing(self) -> None:
        assert fuse([]) == []

    @given(candidate_lists, st.floats(0, 1))
    def test_scores_are_shares_of_one_and_descend(self, found: list[Candidate], weight: float) -> None:
        fused = [candidate.score for candidate in fuse(found, weight)]
        assert all(0 <= score <= 1 for score in fused)
        assert fused == sorted(fused, reverse=True)

    @given(candidate_lists)
    def test_the_order_of_arrival_is_irrelevant(self, found: list[Candidate]) -> None:
        shuffled = sorted(found, key=lambda candidate: candidate.chunk)
        assert fuse(found) == fuse(shuffled)
        assert sorted(chunks(fuse(found))) == chunks(shuffled)
