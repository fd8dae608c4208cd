from __future__ import annotations

import json

import pytest

from benchmarks.figures import Bar, Figure, Verdict, as_json, at_least, at_most, has_failed, table


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (at_most(3, "x"), 3, Verdict.PASS),
        (at_most(3, "x"), 3.01, Verdict.FAIL),
        (at_least(8, "x"), 8, Verdict.PASS),
        (at_least(8, "x"), 7.99, Verdict.FAIL),
        (None, 1e9, Verdict.PRINTED),
    ],
)
def test_a_figure_is_judged_by_its_bar_and_printed_without(
    bar: Bar | None, value: float, verdict: Verdict
) -> None:
    assert Figure(name="f", value=value, unit="ms", bar=bar).verdict is verdict


def test_a_run_fails_when_a_judged_figure_misses() -> None:
    printed = Figure(name="p", value=9, unit="ms")
    missed = Figure(name="m", value=9, unit="ms", bar=at_most(3, "x"))
    assert has_failed([printed, missed])
    assert not has_failed([printed])


def test_the_ratio_is_to_the_baseline_and_missing_without_one() -> None:
    assert Figure(name="f", value=3, unit="ms", baseline=2).ratio == 1.5
    assert Figure(name="f", value=3, unit="ms").ratio is None
    assert Figure(name="f", value=3, unit="ms", baseline=0).ratio is None


def test_the_table_lines_up_and_shows_value_baseline_ratio_bar_and_verdict() -> None:
    lines = table(
        [
            Figure(name="save", value=2.5, unit="ms", baseline=1, bar=at_most(3, "3 x bare")),
            Figure(name="a longer name", value=1234.56, unit="texts/s"),
        ]
    ).splitlines()
    assert lines[1].split() == ["save", "2.500", "ms", "1", "2.50", "3", "x", "bare", "(3)", "pass"]
    assert lines[2].split() == ["a", "longer", "name", "1234.6", "texts/s", "printed"]
    assert lines[1].index("pass") == lines[2].index("printed") == lines[0].index("verdict")


def test_json_contains_the_whole_figure() -> None:
    figure = Figure(name="save", value=4, unit="ms", baseline=1, bar=at_most(3, "3 x bare"))
    assert json.loads(json.dumps(as_json(figure))) == {
        "name": "save",
        "value": 4,
        "unit": "ms",
        "baseline": 1,
        "ratio": 4,
        "bar": {"limit": 3, "text": "3 x bare", "is_least": False},
        "verdict": "fail",
    }
