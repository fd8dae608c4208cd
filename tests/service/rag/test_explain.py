"""The reasons why an entry is not in an answer, and the figures that decided."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from agentctx.service.rag.candidate import Candidate, ConsideredCandidate
from agentctx.service.rag.explain import (
    Ranks,
    best_of,
    explain_fate,
    explain_not_found,
    filtered_out,
    left_out,
    ranks_of,
)
from agentctx.service.rag.relevance import Gate
from agentctx.storage.records import Entry
from agentctx.storage.search import Filter, NearestChunk, WordHit
from agentctx.storage.trust import Provenance
from agentctx.wire import Fate

ENTRY = Entry(
    id="e",
    version=1,
    live=True,
    namespace="default",
    collection="knowledge",
    key="k",
    session="s",
    agent="a",
    content="text",
    attributes={"tags": ["ops"], "category": "rule"},
    origin="user",
    trust="external",
    principal=0,
    created=1_000,
    updated=1_000,
    expires=None,
    pending=False,
    embedded=True,
)
ALL = Filter(namespace="default")


def considered(fate: Fate, distance: float | None = 0.5) -> ConsideredCandidate:
    return ConsideredCandidate(candidate=Candidate(1, "e", 1.0, distance), fate=fate, duplicate_of="other")


def test_an_entry_that_the_question_can_find_is_not_outside() -> None:
    search_filter = Filter(
        namespace="default",
        collections=("knowledge",),
        session="s",
        agent="a",
        category="rule",
        tags=("ops",),
        since=1_000,
        until=1_001,
    )
    assert filtered_out(ENTRY, ALL) is None
    assert filtered_out(ENTRY, search_filter) is None
    assert filtered_out(replace(ENTRY, session=""), search_filter) is None


@pytest.mark.parametrize(
    ("search_filter", "verdict", "message"),
    [
        (Filter(namespace="other"), "namespace", "'default'"),
        (replace(ALL, collections=("learning",)), "filter", "the collections learning; it is in knowledge"),
        (replace(ALL, session="t"), "filter", "the session 't'; it belongs to 's'"),
        (replace(ALL, agent="b"), "filter", "the agent 'b'"),
        (replace(ALL, category="note"), "filter", "the category 'note'"),
        (replace(ALL, tags=("ops", "dev")), "filter", "the tag 'dev'"),
        (replace(ALL, since=1_001), "filter", "newer"),
        (replace(ALL, until=1_000), "filter", "older"),
        (replace(ALL, trust=("agent",)), "trust", "its trust is external"),
    ],
)
def test_the_reason_for_leaving_an_entry_out_is_named(
    search_filter: Filter, verdict: str, message: str
) -> None:
    explained = filtered_out(ENTRY, search_filter)
    assert explained is not None
    assert explained.verdict == verdict
    assert message in explained.message


def test_quarantine_names_its_reason_and_the_way_out() -> None:
    for_source, for_shape = (
        left_out("e", Provenance(quarantined="revoked"), ALL),
        left_out("e", Provenance(quarantined="screened"), ALL),
    )
    assert for_source is not None
    assert for_shape is not None
    assert "source was revoked" in for_source.message
    assert "resembles instructions" in for_shape.message
    assert all("agentctx release e" in each.message for each in (for_source, for_shape))


def test_ranks_count_from_1_in_each_search() -> None:
    words = [WordHit(1, "x", 2.0), WordHit(2, "e", 1.0), WordHit(3, "e", 0.5)]
    near = [NearestChunk(2, "e", 0.1)]
    assert ranks_of("e", words, near, 10, None) == Ranks(word=2, distance=1, looked_at=10)
    assert ranks_of("y", words, near, 10, "slow") == Ranks(
        word=None, distance=None, looked_at=10, degraded="slow"
    )


@pytest.mark.parametrize(
    ("pending", "word", "distance", "degraded", "verdict", "message"),
    [
        (True, None, None, None, "no_vector", "not embedded yet"),
        (False, None, None, None, "no_match", "not among the 10 nearest"),
        (False, None, None, "no model", "no_match", "no model"),
        (True, 7, None, None, "limit", "#7 by keyword"),
        (False, 7, 9, None, "limit", "#7 by keyword and #9 by meaning"),
        (False, None, 9, None, "limit", "it is #9 by meaning"),
    ],
)
def test_why_an_entry_was_no_candidate(
    pending: bool, word: int | None, distance: int | None, degraded: str | None, verdict: str, message: str
) -> None:
    where = Ranks(word=word, distance=distance, looked_at=10, degraded=degraded)
    explained = explain_not_found(replace(ENTRY, pending=pending), where)
    assert explained.verdict == verdict
    assert message in explained.message


def test_ranks_that_did_not_decide_are_not_given_as_the_reason() -> None:
    nearest = Ranks(word=None, distance=1, looked_at=10)
    assert explain_not_found(ENTRY, nearest, "too slow") == (
        "no_match",
        "it has none of the question's words; too slow",
    )
    assert explain_not_found(ENTRY, nearest, also=["team"]).message.endswith("#1 by meaning in its namespace")


def test_the_passage_that_came_farthest_speaks_for_its_entry() -> None:
    farthest = considered("budget")
    assert best_of([considered("relevance"), farthest, considered("stale")]) is farthest
    assert best_of([]) is None


@pytest.mark.parametrize("fate", get_args(Fate))
def test_every_fate_has_its_sentence(fate: Fate) -> None:
    explained = explain_fate(considered(fate), fused_rank=8, limit=5, gate=Gate(0.4), share=2)
    assert explained.verdict == fate
    assert explained.message


def test_relevance_is_explained_by_its_figures() -> None:
    candidate = Candidate(1, "e", 1.0, 0.5, relevance=0.123)
    passage = ConsideredCandidate(candidate=candidate, fate="relevance")
    explained = explain_fate(passage, fused_rank=1, limit=5, gate=Gate(0.4, 0.2), share=2)
    assert "its relevance is 0.12; the best passage needs 0.40, others 0.20" in explained.message
    assert "injection.eagerness" in explained.message


def test_a_passage_far_behind_another_is_explained_by_that() -> None:
    candidate = Candidate(1, "e", 1.0, 0.5, relevance=0.3, behind=4.0)
    passage = ConsideredCandidate(candidate=candidate, fate="relevance")
    explained = explain_fate(passage, fused_rank=1, limit=5, gate=Gate(0.4, 0.2), share=2)
    assert explained.message == "its relevance is 0.30, and that of another passage far higher"


def test_a_decision_by_words_alone_is_explained_by_words() -> None:
    candidate = Candidate(1, "e", 1.0, None, relevance=0.02, by_words=True)
    passage = ConsideredCandidate(candidate=candidate, fate="relevance")
    explained = explain_fate(passage, fused_rank=1, limit=5, gate=Gate(0.4, 0.2), share=2)
    assert "too few of the question's" in explained.message
