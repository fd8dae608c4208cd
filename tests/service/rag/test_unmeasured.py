"""The rule for what has no vector yet, for any candidates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.fuse import fuse, nearness
from agentctx.service.rag.relevance import BY_WORDS, relevance_by_words
from agentctx.service.rag.unmeasured import (
    SPARE,
    first_by_words,
    leader,
    leader_first,
    order_by_distance,
    to_choose_from,
    worth_reading,
)
from agentctx.service.rag.word_match import WordMatch


def candidate(
    chunk: int, word_score: float | None, distance: float | None, rarity: float = 0.0, *, alone: bool = False
) -> Candidate:
    return Candidate(chunk, str(chunk), word_score, distance, by_cue=alone, is_partial=alone, rarity=rarity)


def chunks(candidates: list[Candidate]) -> list[int]:
    return [each.chunk for each in candidates]


others = st.lists(
    st.builds(
        candidate,
        st.integers(2, 99),
        st.none() | st.floats(0, 9),
        st.none() | st.floats(0, 2),
        st.floats(0, 2),
    ),
    max_size=12,
    unique_by=lambda each: each.chunk,
)


@given(others, st.floats(0.1, 9), st.booleans())
def test_what_alone_has_the_words_leads_whatever_else_is_near(
    rest: list[Candidate], score: float, alone: bool
) -> None:
    fresh = candidate(1, score, 1.9 if alone else None, rarity=5.0, alone=alone)
    leads = leader([*rest, fresh])
    assert leads == 1
    placed = leader_first([*rest, fresh], leads)
    assert (placed[0].chunk, placed[1:]) == (1, rest)
    assert placed[0].score == max(each.score for each in placed)


@given(others, st.integers(1, 12))
def test_by_distance_the_nearest_are_chosen_and_the_first_by_words_takes_one_place(
    found: list[Candidate], limit: int
) -> None:
    chosen = to_choose_from(found, "distance")[:limit]
    fresh, nearest = first_by_words(found), order_by_distance(found)
    if fresh is None or fresh in nearest[:limit]:
        assert {each.chunk for each in chosen} == {each.chunk for each in nearest[:limit]}
    else:
        assert set(chunks(chosen)) == {fresh.chunk, *chunks(nearest[: limit - 1])}
    assert to_choose_from(found, "relevance") == found


def test_who_shares_the_words_with_others_is_ranked_by_its_score() -> None:
    fresh, other = candidate(1, 5.0, None, rarity=4.0), candidate(2, 4.0, 0.1, rarity=2.0)
    assert leader([fresh, other]) is None
    assert leader([fresh, other._replace(rarity=1.9)]) == 1
    assert leader([fresh, candidate(3, None, 0.1, rarity=4.0)]) == 1, "keyword search did not find the other"
    assert leader([other._replace(rarity=9.0)]) is None, "it is measured"
    assert leader([fresh, other._replace(entry="1")]) == 1, "another chunk of the same entry"
    assert leader([]) is None


def test_of_equals_the_measured_is_first_by_words() -> None:
    assert first_by_words([candidate(1, 5.0, None), candidate(2, 5.0, 0.3)]) is None
    assert first_by_words([candidate(1, 5.0, None), candidate(2, 4.0, 0.3)]) == candidate(1, 5.0, None)


def test_only_texts_without_a_vector_are_worth_reading_beyond_the_best() -> None:
    found = [candidate(chunk, float(chunk), None) for chunk in range(1, 20)]
    assert chunks(worth_reading([candidate(50, 99.0, 0.1), candidate(51, None, None), *found])) == list(
        range(19, 19 - SPARE, -1)
    )


def test_without_a_vector_it_is_as_near_as_its_words_are_good() -> None:
    fresh, embedded, alike = candidate(1, 10, None), candidate(2, 9, 0.1), candidate(3, 5, None)
    assert nearness([fresh, embedded, alike], [1.0, 0.9, 0.5]) == [1.0, 1.0, 0.5]
    assert chunks(fuse([embedded, alike, fresh], 0.5)) == [1, 2, 3]
    assert nearness([fresh, alike], [1.0, 0.5]) == [1.0, 0.5]


def test_a_leader_needs_fewer_words_to_be_injected() -> None:
    one_of_two, one = WordMatch(1, 2), WordMatch(1, 1)
    assert relevance_by_words(one) < BY_WORDS
    assert relevance_by_words(one_of_two, leads=True) == BY_WORDS
    assert relevance_by_words(WordMatch(1, 4), leads=True) < BY_WORDS
    assert relevance_by_words(one, leads=True, is_degraded=True) == BY_WORDS
    assert relevance_by_words(one_of_two, leads=True, is_degraded=True) < BY_WORDS


def test_nearest_first_and_the_unmeasured_last_in_the_order_given() -> None:
    fused = [candidate(5, 9, None), candidate(1, 8, 0.7), candidate(2, 7, 0.1), candidate(4, 1, None)]
    assert chunks(order_by_distance(fused)) == [2, 1, 5, 4]
    assert chunks(order_by_distance([candidate(9, 5, 0.3), candidate(1, 4, 0.3)])) == [9, 1]
