"""The reads of a question, and how hits are ranked and rated."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TypeVar

import numpy as np
import pytest

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.explain import Ranks
from agentctx.service.rag.finding import (
    BEHIND_OF_TURNS,
    SearchInput,
    behind_the_best,
    less_likely,
    passages,
    ranks,
    rate,
)
from agentctx.service.rag.periods import Period
from agentctx.service.rag.question import Question
from agentctx.service.rag.relevance import BY_WORDS, Calibration, Scale, log_odds
from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.passage_traits import PassageTraits, traits_of
from agentctx.storage.search import (
    ChunksWithTurns,
    Distances,
    Filter,
    Nearest,
    NearestChunk,
    Read,
    ResolvedChunk,
    SearchWords,
    Steps,
    TermCounts,
    Texts,
    WithTurns,
    WordHit,
    WordResults,
)
from tests.service.rag.test_select import entry

QUESTION = QuestionWords("red apple pie recipe")
QUERY = np.array([1.0, 0.0], dtype=np.float32)
CALIBRATION = Calibration(Scale(), np.array([[0.0, 1.0]], dtype=np.float32))
T = TypeVar("T")
WANTED = Filter(namespace="n")
FOUND_BY_WORDS = [WordHit(1, "1", 2.0), WordHit(2, "2", 1.0)]


def asked(*, with_vector: bool) -> SearchInput:
    return SearchInput(
        question=Question(text="red apple pie recipe", filter=WANTED, limit=5),
        pool=40,
        dense_weight=0.5,
        words=QUESTION,
        found=WordResults(FOUND_BY_WORDS, TermCounts(0, {})),
        query=QUERY if with_vector else None,
        degraded=None if with_vector else "off: no model",
    )


def text(chunk: int) -> ResolvedChunk:
    return ResolvedChunk(chunk=chunk, start=0, end=5, content="apple", entry=entry(chunk))


def traits(chunk: int, content: str = "apple") -> PassageTraits:
    return PassageTraits(str(chunk), *traits_of(content), found=QUESTION.found([content]))


def of(*chunks: int) -> dict[int, PassageTraits]:
    return {chunk: traits(chunk) for chunk in chunks}


def texts(*chunks: int) -> dict[int, ResolvedChunk]:
    return {chunk: text(chunk) for chunk in chunks}


def followed(steps: Steps[T], answers: list[object]) -> tuple[list[Read], T]:
    """Return the reads that the steps ask for, answered in this order, and their result."""
    reads, answer = [], None
    while True:
        try:
            reads.append(steps.send(answer))
        except StopIteration as done:
            return reads, done.value
        answer = answers.pop(0)


def test_a_question_reads_vectors_then_distances_then_traits_then_texts() -> None:
    answers: list[object] = [
        [NearestChunk(2, "2", 0.2), NearestChunk(3, "3", 0.4)],
        {1: 0.3},
        ChunksWithTurns(of(1, 2, 3), {}, {}),
        texts(1, 2, 3),
    ]
    reads, found = followed(passages(asked(with_vector=True)), answers)
    assert reads == [
        Nearest(QUERY, WANTED, 40),
        Distances(QUERY, [1]),
        WithTurns([2, 1, 3], WANTED, QUERY, QUESTION),
        Texts([2, 1, 3], WANTED),
    ]
    assert {each.chunk: each.distance for each in found.candidates} == {1: 0.3, 2: 0.2, 3: 0.4}
    assert (len(found.rated), found.rest, found.degraded) == (3, [], None)
    assert found.words == QUESTION.found(["apple"])


def test_the_steps_search_by_words_unless_that_was_done_before() -> None:
    found = WordResults(FOUND_BY_WORDS, TermCounts(0, {}))
    answers: list[object] = [found, ChunksWithTurns(of(1, 2), {}, {}), texts(1, 2)]
    reads, _ = followed(passages(replace(asked(with_vector=False), found=None)), answers)
    assert reads[0] == SearchWords("red apple pie recipe", WANTED, 40)


def test_without_a_vector_nothing_is_measured() -> None:
    reads, found = followed(
        passages(asked(with_vector=False)), [ChunksWithTurns(of(1, 2), {}, {}), texts(1, 2)]
    )
    assert reads[0] == WithTurns([1, 2], WANTED, None, QUESTION)
    assert ([each.chunk for each in found.candidates], found.degraded) == ([1, 2], "off: no model")


def test_a_neighbour_among_the_best_is_read_and_one_that_cannot_be_is_left_out() -> None:
    neighbours = {7: traits(7, "the apple pie"), 8: traits(8, "the recipe")}
    around = ChunksWithTurns(of(1, 2) | neighbours, {1: {1: 7, 2: 8}}, {})
    reads, found = followed(passages(asked(with_vector=False)), [around, texts(1, 2, 7)])
    assert isinstance(reads[-1], Texts)
    assert sorted(reads[-1].chunks) == [1, 2, 7, 8]
    assert {each.chunk for each in found.candidates} == set(found.texts) == {1, 2, 7}


def test_a_candidate_without_a_text_comes_after_those_with_one() -> None:
    for readable in (of(1, 2), of(2)):
        around = ChunksWithTurns(readable, {}, {})
        _, found = followed(passages(asked(with_vector=False)), [around, texts(2)])
        assert ([each.chunk for each in found.rated], found.rest) == ([2, 1], [])


def test_ranks_are_those_of_both_searches() -> None:
    nearest = [NearestChunk(3, "3", 0.1), NearestChunk(2, "2", 0.2)]
    reads, found = followed(ranks(asked(with_vector=True), "2"), [nearest])
    assert (reads, found) == ([Nearest(QUERY, WANTED, 40)], Ranks(word=2, distance=2, looked_at=40))


def test_words_alone_judge_passages_without_vector_or_calibration() -> None:
    near, pending = Candidate(1, "1", 1.0, 0.1), Candidate(2, "2", 1.0, None)
    found = {1: frozenset[str](), 2: QUESTION.found(["red apple pie recipe"])}
    measured, worded = rate([near, pending], found, QUESTION, CALIBRATION.level(QUERY), CALIBRATION)
    assert (measured.by_words, worded.by_words) == (False, True)
    assert (measured.relevance > BY_WORDS, worded.relevance) == (True, BY_WORDS)
    for level, calibration in ((None, CALIBRATION), (0.2, None)):
        rated = rate([near, pending], found, QUESTION, level, calibration, is_degraded=level is None)
        assert [each.by_words for each in rated] == [True, True]
        assert rated[0].relevance < rated[1].relevance


def test_what_is_about_the_period_of_the_question_comes_first() -> None:
    day = Period(date(2026, 11, 18), date(2026, 11, 18))
    contents = {1: "apple, 2026-11-05", 2: "apple, 2026-11-18", 3: "apple, 2026-11-06"}
    read = {each: replace(text(each), content=content) for each, content in contents.items()}
    search = replace(asked(with_vector=False), periods=[day])
    _, found = followed(passages(search), [ChunksWithTurns(of(*read), {}, {}), read])
    assert [each.chunk for each in found.rated] == [2, 1]


def test_turns_are_less_far_behind_the_best_because_they_answer_together() -> None:
    relevances = {1: 0.9, 2: 0.1, 3: 0.1}
    best, other, turn = (Candidate(chunk, "e", None, 0.4, relevance=p) for chunk, p in relevances.items())
    by_words = Candidate(4, "e", 1.0, None, relevance=1.0, by_words=True)
    behind = [each.behind for each in behind_the_best([best, other, turn, by_words], {3})]
    assert behind == [0.0, pytest.approx(4.394, abs=0.01), pytest.approx(2.197, abs=0.01), 0.0]


def test_a_neighbour_of_a_turn_is_a_turn() -> None:
    near, neighbour = [NearestChunk(3, "3", 0.1)], traits(7, "the apple pie")
    around = ChunksWithTurns(of(1, 3) | {7: neighbour}, {1: {1: 7}}, {7: 0.9})
    asking = replace(asked(with_vector=True), calibration=CALIBRATION)
    _, found = followed(passages(asking), [near, {1: 0.8, 2: 0.9}, around, texts(1, 3, 7)])
    best = max(each.relevance for each in found.rated)
    odds = {each.chunk: (log_odds(best) - log_odds(each.relevance), each.behind) for each in found.rated}
    for chunk in (1, 7):
        assert odds[chunk][1] == pytest.approx(BEHIND_OF_TURNS * odds[chunk][0]) != 0.0


def test_what_one_of_several_tries_found_is_less_likely() -> None:
    candidates = [Candidate(1, "e", None, 0.4, relevance=0.5), Candidate(2, "f", None, 0.4, relevance=0.0)]
    assert less_likely(candidates, 1) == candidates
    assert [round(each.relevance, 3) for each in less_likely(candidates, 3)] == [0.25, 0.0]
