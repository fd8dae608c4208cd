from __future__ import annotations

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.cues import CUE_DISCOUNT, CUE_WORDS, cues_for, ranked_by_relevance
from agentctx.service.rag.fuse import fuse, merge, nearness
from agentctx.service.rag.ranking import searched_texts
from agentctx.storage.records import Entry
from agentctx.storage.search import NearestChunk, ResolvedChunk, WordHit

ENTRY = Entry(
    id="e",
    version=1,
    live=True,
    namespace="default",
    collection="knowledge",
    key="k",
    session="",
    agent="",
    content="",
    attributes={"cues": ["asking about zebras"]},
    origin="agent",
    trust="agent",
    principal=1,
    created=0,
    updated=0,
    expires=None,
    pending=False,
    embedded=True,
)


def chunk(start: int) -> ResolvedChunk:
    return ResolvedChunk(chunk=1, start=start, end=start + 4, content="text", entry=ENTRY)


def test_text_and_cue_are_one_candidate_with_the_words_of_both() -> None:
    hits = [WordHit(1, "e", 4.0, cue=9), WordHit(2, "f", 3.0), WordHit(1, "e", 2.0)]
    assert merge(hits, [], {1: 0.5, 9: 0.6}) == [
        Candidate(1, "e", 2.0 + CUE_WORDS * 4.0, 0.5),
        Candidate(2, "f", 3.0, None),
    ]


def test_the_nearer_of_text_and_cue_counts() -> None:
    near_cue = [NearestChunk(1, "e", 0.2, cue=9), NearestChunk(1, "e", 0.6)]
    near_text = [NearestChunk(1, "e", 0.2), NearestChunk(1, "e", 0.6, cue=9)]
    assert merge([], near_cue, {}) == [Candidate(1, "e", None, 0.2, by_cue=True)]
    assert merge([], near_text, {}) == [Candidate(1, "e", None, 0.2)]
    found = merge([WordHit(1, "e", 1.0)], [NearestChunk(1, "e", 0.4, cue=9)], {1: 0.3})
    assert found == [Candidate(1, "e", 1.0, 0.3)]


def test_a_cue_that_is_hardly_nearer_does_not_outrank_a_text() -> None:
    text, cue = Candidate(1, "e", None, 0.4), Candidate(2, "f", None, 0.4 - CUE_DISCOUNT / 2, by_cue=True)
    assert [each.chunk for each in fuse([cue, text])] == [1, 2]
    much_nearer = cue._replace(distance=0.4 - 2 * CUE_DISCOUNT)
    assert [each.chunk for each in fuse([text, much_nearer])] == [2, 1]
    assert nearness([text, much_nearer], [0.0, 0.0]) == [0.0, 1.0]


def test_the_words_of_cues_are_the_first_chunks() -> None:
    assert cues_for(chunk(0)) == ("asking about zebras",)
    assert "asking about zebras" in searched_texts(chunk(0))
    assert cues_for(chunk(40)) == ()
    assert "asking about zebras" not in searched_texts(chunk(40))


def test_entries_with_cues_stand_where_their_relevance_puts_them() -> None:
    def candidate(chunk: int, relevance: float) -> Candidate:
        return Candidate(chunk, "e", None, None, relevance=relevance)

    others = [candidate(1, 0.3), candidate(2, 0.6), candidate(3, 0.1)]
    cued = [candidate(11, 0.5), candidate(12, 0.9), candidate(13, 0.05), candidate(14, 0.55)]
    ranked = [cued[0], others[0], cued[1], others[1], cued[2], others[2], cued[3]]
    found = ranked_by_relevance(ranked, {11, 12, 13, 14})
    assert [each.chunk for each in found] == [12, 1, 14, 11, 2, 3, 13], "the others are in their order"
    assert ranked_by_relevance(others, set()) == others
