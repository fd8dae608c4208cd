from __future__ import annotations

from agentctx.service.rag.candidate import Candidate, Trace, count_fates

A, B, C, D = (Candidate(at, f"e{at}", None, None) for at in range(4))


def test_every_candidate_has_a_fate_in_fused_order() -> None:
    trace = Trace([A, B, C, D])
    assert trace.kept("relevance", [A, B, C, D], [D, A, B]) == [D, A, B]
    trace.duplicates({1: 3})
    trace.kept("duplicate", [D, A, B], [D, A])
    trace.reranked([D, A])
    trace.left_out("budget", [0])
    considered = trace.considered()
    assert [(each.candidate, each.fate) for each in considered] == [
        (A, "budget"),
        (B, "duplicate"),
        (C, "relevance"),
        (D, "injected"),
    ]
    assert [(each.duplicate_of, each.reranked) for each in considered] == [
        (None, 2),
        ("e3", None),
        (None, None),
        (None, 1),
    ]
    assert count_fates(considered) == {"budget": 1, "duplicate": 1, "relevance": 1, "injected": 1}


def test_without_candidates_there_is_nothing_to_tell() -> None:
    assert Trace([]).considered() == ()
    assert count_fates(()) == {}
