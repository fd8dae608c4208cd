"""The order of a pool, with and without conversations in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentctx.rag.candidate import Candidate
from agentctx.rag.ranking import Pool, rank, ranking_text, with_neighbours, words_of
from agentctx.storage.search import ResolvedChunk, Turns
from tests.rag.test_select import entry

TEXTS = {
    1: "Where have you bought that guitar?",
    2: "In a small shop behind the old station, last week",
    3: "In a large mall behind the new harbour, last month",
}
WORDS = frozenset({"guitar", "bought"})


def resolved(chunk: int) -> ResolvedChunk:
    return ResolvedChunk(chunk=chunk, start=0, end=9, content=TEXTS[chunk], entry=entry(chunk))


def pool(candidates: Sequence[Candidate], turns: Mapping[int, Mapping[int, int]]) -> Pool:
    said = {candidate.chunk: ranking_text(resolved(candidate.chunk)) for candidate in candidates}
    found = {chunk: WORDS if chunk == 1 else frozenset[str]() for chunk in said}
    return Pool(candidates, said, _turns(turns), found, {"guitar": 3.0, "bought": 2.0})


def _turns(turns: Mapping[int, Mapping[int, int]]) -> Turns:
    return {chunk: dict(row) for chunk, row in turns.items()}


def candidates(*chunks: int) -> list[Candidate]:
    return [Candidate(chunk, str(chunk), None, 0.5, score=1 / chunk) for chunk in chunks]


def test_without_conversations_the_order_is_that_of_fusion() -> None:
    found = candidates(3, 1, 2)
    assert rank("who sold the guitar", pool(found, {}), 0.5) == found


def test_an_answer_next_to_a_matching_turn_ranks_before_one_elsewhere() -> None:
    turns = {1: {1: 2}, 2: {-1: 1}, 3: dict[int, int]()}
    ranked = rank("who sold the guitar that was bought", pool(candidates(3, 2, 1), turns), 0.5)
    chunks = [candidate.chunk for candidate in ranked]
    assert chunks.index(2) < chunks.index(3)


def test_an_answer_next_to_a_matching_turn_ranks_before_one_outside_conversations() -> None:
    turns = {1: {1: 2}, 2: {-1: 1}}
    ranked = rank("who sold the guitar that was bought", pool(candidates(3, 2, 1), turns), 0.5)
    chunks = [candidate.chunk for candidate in ranked]
    assert chunks.index(2) < chunks.index(3)


def test_a_neighbour_that_was_not_found_itself_knows_its_own_neighbours() -> None:
    turns = {1: {1: 2}, 3: dict[int, int]()}
    ranked = rank("who sold the guitar that was bought", pool(candidates(3, 2, 1), turns), 0.5)
    chunks = [candidate.chunk for candidate in ranked]
    assert chunks.index(2) < chunks.index(3)


def test_neighbours_of_hits_follow_with_their_distance() -> None:
    said = {chunk: ranking_text(resolved(chunk)) for chunk in (1, 2)}
    pooled = with_neighbours(candidates(1), _turns({1: {1: 2, 2: 3}}), said, {2: 0.25})
    assert [(each.chunk, each.distance) for each in pooled] == [(1, 0.5), (2, 0.25)], "3 has gone meanwhile"


def test_labels_and_cues_count_as_documented() -> None:
    labelled = replace(
        entry(1, agent="planner"), key="deploy", attributes={"tags": ["ops"], "cues": ["when to release"]}
    )
    said = words_of(ranking_text(replace(resolved(1), entry=labelled)))
    assert said == [TEXTS[1], "planner", "deploy\nops", "when to release"]
