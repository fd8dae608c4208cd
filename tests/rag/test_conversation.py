"""Turns are scored with their neighbours."""

from __future__ import annotations

from collections.abc import Mapping

from agentctx.rag.conversation import PooledTurn, scores

RARITY = {"guitar": 3.0, "bought": 2.0}


def turn(
    text: str, *found: str, beside: Mapping[int, int] | None, nearness: float = 0.0, agent: str = ""
) -> PooledTurn:
    return PooledTurn(text=text, found=frozenset(found), nearness=nearness, beside=beside, agent=agent)


def scored(question: str, *pool: PooledTurn, dense_weight: float = 0.5) -> list[float]:
    return scores(question, pool, RARITY, dense_weight)


def test_an_answer_is_found_by_the_words_of_the_turn_before_it() -> None:
    asks = turn("Where have you bought that guitar?", "guitar", "bought", beside={1: 1})
    answer = turn("In a small shop behind the old station, last week", beside={-1: 0})
    stranger = turn("In a large mall behind the new harbour, last month", beside={})
    _, with_neighbour, alone = scored("who sold the guitar that was bought", asks, answer, stranger)
    assert with_neighbour > alone


def test_nearness_of_neighbours_counts_less_than_its_own() -> None:
    near = turn("some words about it here", beside={1: 1}, nearness=1.0)
    beside = turn("other words about it here", beside={-1: 0})
    far = turn("other words about it there", beside={})
    own, neighbour, none = scored("question", near, beside, far)
    assert own > neighbour > none


def test_an_acknowledgement_counts_less_than_a_substantial_turn() -> None:
    short, long = turn("Great!", beside={}), turn("We moved the meeting to the larger room", beside={})
    assert scored("what happened", short, long)[0] < scored("what happened", short, long)[1]


def test_who_speaks_and_when_count_if_they_are_asked_for() -> None:
    ann = turn("Ann: yes, we did that last week", beside={})
    bob = turn("Bob: yes, we did that some way", beside={})
    by_speaker = scored("what did Bob do", ann, bob)
    by_time = scored("when did they do it", ann, bob)
    assert by_speaker[1] > by_speaker[0]
    assert by_time[0] > by_time[1]
    agent = scored(
        "what did the planner do", turn("done so", beside={}, agent="planner"), turn("done so", beside={})
    )
    assert agent[0] > agent[1]


def test_a_question_counts_less_than_a_statement() -> None:
    asks, states = turn("is it blue and green?", beside={}), turn("it is blue and green.", beside={})
    first, second = scored("colour", asks, states)
    assert first < second


def test_entries_outside_conversations_are_not_outranked() -> None:
    note = PooledTurn("the guitar was bought in May", frozenset(RARITY), nearness=1.0, words=1.0)
    chatter = turn("that guitar sounds nice", "guitar", beside={}, nearness=0.5)
    first, second = scored("when was the guitar bought", note, chatter)
    assert first > second


def test_the_dense_weight_decides_between_words_and_vectors() -> None:
    by_words = turn("bought guitar then", "guitar", "bought", beside={})
    by_meaning = turn("acquired instrument then", beside={}, nearness=1.0)
    words_only = scored("q", by_words, by_meaning, dense_weight=0.0)
    meaning_only = scored("q", by_words, by_meaning, dense_weight=1.0)
    assert words_only[0] > words_only[1]
    assert meaning_only[1] > meaning_only[0]


def test_a_question_without_words_has_scores() -> None:
    assert len(scored("-", turn("yes", beside={1: 1}), turn("no", beside={-1: 0}))) == 2


def test_an_empty_pool_has_no_scores() -> None:
    assert scores("q", [], RARITY, 0.5) == []
