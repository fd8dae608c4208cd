"""The order of candidates, with and without conversations; turns are scored with their neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.ranking import Pool, rank, scores, searched_texts, with_neighbours
from agentctx.storage.passage_traits import PassageTraits, traits_of
from agentctx.storage.search import Neighbours, ResolvedChunk
from tests.service.rag.test_select import entry

TEXTS = {
    1: "Where have you bought that guitar?",
    2: "In a small shop behind the old station, last week",
    3: "In a large mall behind the new harbour, last month",
}
WORDS = frozenset({"guitar", "bought"})
RARITY = {"guitar": 3.0, "bought": 2.0}


def traits(text: str, found: frozenset[str] = frozenset(), agent: str = "", chunk: int = 0) -> PassageTraits:
    own = traits_of(text)
    return PassageTraits(str(chunk), own.words, agent or own.speaker, own.asks, own.times, found=found)


def ranked(
    question: str, candidates: Sequence[Candidate], turns: Mapping[int, Mapping[int, int]]
) -> list[Candidate]:
    said = {
        each.chunk: traits(TEXTS[each.chunk], WORDS if each.chunk == 1 else frozenset(), chunk=each.chunk)
        for each in candidates
    }
    return rank(question, candidates, said, _turns(turns), rarity=RARITY, dense_weight=0.5, limit=9)


def _turns(turns: Mapping[int, Mapping[int, int]]) -> Neighbours:
    return {chunk: dict(row) for chunk, row in turns.items()}


def candidates(*chunks: int) -> list[Candidate]:
    return [Candidate(chunk, str(chunk), None, 0.5, score=1 / chunk) for chunk in chunks]


def test_without_conversations_the_order_is_that_of_fusion() -> None:
    found = candidates(3, 1, 2)
    assert ranked("who sold the guitar", found, {}) == found


def test_an_answer_next_to_a_matching_turn_ranks_before_one_elsewhere() -> None:
    turns = {1: {1: 2}, 2: {-1: 1}, 3: dict[int, int]()}
    found = ranked("who sold the guitar that was bought", candidates(3, 2, 1), turns)
    chunks = [candidate.chunk for candidate in found]
    assert chunks.index(2) < chunks.index(3)


def test_an_answer_next_to_a_matching_turn_ranks_before_one_outside_conversations() -> None:
    turns = {1: {1: 2}, 2: {-1: 1}}
    found = ranked("who sold the guitar that was bought", candidates(3, 2, 1), turns)
    chunks = [candidate.chunk for candidate in found]
    assert chunks.index(2) < chunks.index(3)


def test_a_neighbour_that_was_not_found_itself_knows_its_own_neighbours() -> None:
    turns = {1: {1: 2}, 3: dict[int, int]()}
    found = ranked("who sold the guitar that was bought", candidates(3, 2, 1), turns)
    chunks = [candidate.chunk for candidate in found]
    assert chunks.index(2) < chunks.index(3)


def test_neighbours_of_hits_follow_with_their_distance() -> None:
    said = {chunk: traits(TEXTS[chunk], chunk=chunk) for chunk in (1, 2)}
    pooled = with_neighbours(candidates(1), _turns({1: {1: 2, 2: 3}}), said, {2: 0.25})
    assert [(each.chunk, each.distance) for each in pooled] == [(1, 0.5), (2, 0.25)], "3 has gone meanwhile"


def test_labels_and_cues_count_as_documented() -> None:
    labelled = replace(
        entry(1, agent="planner"), key="deploy", attributes={"tags": ["ops"], "cues": ["when to release"]}
    )
    passage = ResolvedChunk(chunk=1, start=0, end=9, content=TEXTS[1], entry=labelled)
    said = searched_texts(passage)
    assert said == [TEXTS[1], "planner", "deploy\nops", "when to release"]


class Turn(NamedTuple):
    """One position of a pool."""

    text: str
    found: frozenset[str]
    nearness: float
    words: float = 0.0
    agent: str = ""
    neighbours: Mapping[int, int] | None = None


def turn(
    text: str, *found: str, neighbours: Mapping[int, int] | None, nearness: float = 0.0, agent: str = ""
) -> Turn:
    return Turn(text=text, found=frozenset(found), nearness=nearness, neighbours=neighbours, agent=agent)


def scored(question: str, *turns: Turn, dense_weight: float = 0.5) -> list[float]:
    pool = Pool(
        traits=[traits(each.text, each.found, each.agent) for each in turns],
        nearness=[each.nearness for each in turns],
        words=[each.words for each in turns],
        neighbours=[each.neighbours for each in turns],
    )
    return scores(question, pool, RARITY, dense_weight)


def test_an_answer_is_found_by_the_words_of_the_turn_before_it() -> None:
    asks = turn("Where have you bought that guitar?", "guitar", "bought", neighbours={1: 1})
    answer = turn("In a small shop behind the old station, last week", neighbours={-1: 0})
    stranger = turn("In a large mall behind the new harbour, last month", neighbours={})
    _, with_neighbour, alone = scored("who sold the guitar that was bought", asks, answer, stranger)
    assert with_neighbour > alone


def test_nearness_of_neighbours_counts_less_than_its_own() -> None:
    near = turn("some words about it here", neighbours={1: 1}, nearness=1.0)
    neighbours = turn("other words about it here", neighbours={-1: 0})
    far = turn("other words about it there", neighbours={})
    own, neighbour, none = scored("question", near, neighbours, far)
    assert own > neighbour > none


def test_an_acknowledgement_counts_less_than_a_substantial_turn() -> None:
    short, long = (
        turn("Great!", neighbours={}),
        turn("We moved the meeting to the larger room", neighbours={}),
    )
    assert scored("what happened", short, long)[0] < scored("what happened", short, long)[1]


def test_who_speaks_and_when_count_if_they_are_asked_for() -> None:
    ann = turn("Ann: yes, we did that last week", neighbours={})
    bob = turn("Bob: yes, we did that some way", neighbours={})
    by_speaker = scored("what did Bob do", ann, bob)
    by_time = scored("when did they do it", ann, bob)
    assert by_speaker[1] > by_speaker[0]
    assert by_time[0] > by_time[1]
    agent = scored(
        "what did the planner do",
        turn("done so", neighbours={}, agent="planner"),
        turn("done so", neighbours={}),
    )
    assert agent[0] > agent[1]


def test_a_question_counts_less_than_a_statement() -> None:
    asks, states = turn("is it blue and green?", neighbours={}), turn("it is blue and green.", neighbours={})
    first, second = scored("colour", asks, states)
    assert first < second


def test_entries_outside_conversations_are_not_outranked() -> None:
    note = Turn("the guitar was bought in May", frozenset(RARITY), nearness=1.0, words=1.0)
    chatter = turn("that guitar sounds nice", "guitar", neighbours={}, nearness=0.5)
    first, second = scored("when was the guitar bought", note, chatter)
    assert first > second


def test_the_dense_weight_decides_between_words_and_vectors() -> None:
    by_words = turn("bought guitar then", "guitar", "bought", neighbours={})
    by_meaning = turn("acquired instrument then", neighbours={}, nearness=1.0)
    words_only = scored("q", by_words, by_meaning, dense_weight=0.0)
    meaning_only = scored("q", by_words, by_meaning, dense_weight=1.0)
    assert words_only[0] > words_only[1]
    assert meaning_only[1] > meaning_only[0]


def test_a_question_without_words_has_scores() -> None:
    assert len(scored("-", turn("yes", neighbours={1: 1}), turn("no", neighbours={-1: 0}))) == 2


def test_an_empty_pool_has_no_scores() -> None:
    assert scored("q") == []
