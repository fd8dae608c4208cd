"""The figures of `scale` and their bars."""

from __future__ import annotations

from benchmarks.figures import Verdict, at_most
from benchmarks.scale import Asked, figures_of, place_of


def test_a_question_may_take_some_embeddings_and_more_for_each_pair_of_the_judge() -> None:
    asked = Asked(embeddings=[2.0] * 9, searches=[5.9] * 9, contexts=[9.1] * 9, small=[6.1] * 9, pairs=0.5)
    found = {figure.name: figure for figure in figures_of(100_000, asked, 41_600_000, 0.98)}
    verdicts = {name.partition(": ")[2]: figure.verdict for name, figure in found.items()}
    assert verdicts["search, p50"] is Verdict.PASS
    assert verdicts["context, p50"] is Verdict.FAIL
    assert verdicts["search, p95"] is Verdict.PASS
    assert verdicts["search in a namespace of 1 %, p50"] is Verdict.FAIL
    assert verdicts["recall@10 of the vectors"] is Verdict.FAIL
    assert found["100000 entries: vectors in memory"].value == 416
    assert found["100000 entries: context, p50"].bar == at_most(9.0, "(3 + 3 a pair) x embedding")
    (million, *_) = [each for each in figures_of(1_000_000, asked, 1, 1) if "search" in each.name]
    assert million.verdict is Verdict.PRINTED


def test_one_of_a_hundred_is_in_the_small_namespace() -> None:
    assert sum(place_of(number).namespace == "small" for number in range(1_000)) == 10
