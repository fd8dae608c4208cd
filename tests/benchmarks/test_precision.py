from __future__ import annotations

from typing import Any

import pytest

from benchmarks.precision import Judged, figures, judge, participants, summary, superseded_by, text_of

ONLY_A = {"shouldOnlyInclude": ["a"]}


@pytest.mark.parametrize(
    ("got", "expected", "judged"),
    [
        (["a"], ONLY_A, Judged(True, 1.0, 1.0)),
        (["a", "b"], ONLY_A, Judged(False, 0.5, 1.0)),
        ([], ONLY_A, Judged(False, 0.0, 0.0)),
        ([], {"shouldOnlyInclude": []}, Judged(True, None, None)),
        (["b"], {"shouldOnlyInclude": []}, Judged(False, 0.0, None)),
        (["b"], {"mustExclude": ["b"]}, Judged(False, 0.0, None)),
        (["c"], {"mustExclude": ["b"]}, Judged(True, 0.0, None)),
    ],
)
def test_a_case_passes_with_exactly_what_it_should_get(
    got: list[str], expected: dict[str, list[str]], judged: Judged
) -> None:
    assert judge(got, expected) == judged


def test_the_last_line_has_means_and_counts() -> None:
    cases = [Judged(True, 1.0, 1.0), Judged(False, 0.25, 0.75), Judged(True, None, None)]
    assert summary(figures(cases, [Judged(True, 1.0, 1.0)])) == (
        "precision .62 recall .88 passes 2 of 3 session 1 of 1"
    )


def _belief(name: str, **fields: Any) -> dict[str, Any]:
    common = {"type": "fact", "superseded_by": None, "user_id": "u", "scope": ["code"]}
    return {"_id": name, "canonical_name": name, **common, **fields}


def test_a_belief_supersedes_what_names_it_in_the_same_scope_of_the_same_user() -> None:
    new = _belief("new", scope=["code", "prose"])
    known = [
        _belief("old", superseded_by="new"),
        _belief("older", superseded_by="old"),
        _belief("elsewhere", superseded_by="new", scope=["prose"]),
        _belief("of-another", superseded_by="new", user_id="v"),
        new,
    ]
    assert superseded_by(new, "code", known) == ["old"]
    assert superseded_by(new, "prose", known) == ["elsewhere"]


def test_a_relation_brings_its_participants_but_pinned_ones_and_questions() -> None:
    relation = _belief("r", participants=["a", "b", "q"])
    visible = [_belief("a"), _belief("b"), _belief("c"), _belief("q", type="open_question")]
    assert list(participants([relation], visible, {"b"})) == ["a"]


def test_aliases_are_part_of_the_text_unless_they_are_cues() -> None:
    belief = _belief("b", canonical_name="cat", aliases=["puss"], content="It purrs.", why_it_matters="Calm.")
    assert text_of(belief, with_aliases=True) == "cat puss It purrs. Calm."
    assert text_of(belief, with_aliases=False) == "cat It purrs. Calm."
