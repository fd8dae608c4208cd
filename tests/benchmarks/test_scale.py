"""The figures of `scale` and their bars."""

from __future__ import annotations

from benchmarks.figures import Verdict
from benchmarks.scale import Asked, figures_of, place_of


def test_a_question_may_take_its_embedding_and_some_milliseconds() -> None:
    asked = Asked(embeddings=[2.0] * 9, searches=[9.9] * 9, contexts=[10.1] * 9, small=[3.0] * 9)
    found = {figure.name: figure for figure in figures_of(100_000, asked, 41_600_000, 0.98)}
    verdicts = {name.partition(": ")[2]: figure.verdict for name, figure in found.items()}
    assert verdicts["search, p50"] is Verdict.PASS
    assert verdicts["context, p50"] is Verdict.FAIL
    assert verdicts["search, p95"] is Verdict.PASS
    assert verdicts["search in a namespace of 1 %, p50"] is Verdict.PASS
    assert verdicts["recall@10 of the vectors"] is Verdict.FAIL
    assert found["100000 entries: vectors in memory"].value == 416


def test_one_of_a_hundred_is_in_the_small_namespace() -> None:
    assert sum(place_of(number).namespace == "small" for number in range(1_000)) == 10
