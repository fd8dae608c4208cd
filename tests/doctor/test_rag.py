from __future__ import annotations

from typing import Any, get_args

import pytest

from agentctx.config.schema import Settings
from agentctx.doctor.rag import judge_calibration, judge_rag, rag_check
from agentctx.doctor.runner import run_checks
from agentctx.wire import CalibrationState


def settings(rag: dict[str, Any], provider: str = "fake") -> Settings:
    return Settings.model_validate({"embedding": {"provider": provider, "rag": rag}})


async def test_the_defaults_make_sense() -> None:
    (result,) = await run_checks([rag_check(Settings())])
    assert result.status == "pass"


def test_switched_off_is_no_fault() -> None:
    assert judge_rag(settings({"enabled": False})).status == "pass"


def test_a_default_that_every_question_is_refused_for_fails() -> None:
    assert judge_rag(settings({"max_results": 101})).status == "fail"


@pytest.mark.parametrize(
    ("rag", "provider", "said"),
    [
        ({"collections": []}, "fake", "nothing is searched"),
        ({"budget_tokens": 10}, "fake", "hardly a passage fits"),
        ({"deadline_s": 60}, "fake", "may wait that long"),
        ({"dense_weight": 0}, "fake", "not used"),
        ({"max_distance": 0.5}, "none", "nothing has a distance"),
    ],
)
def test_what_makes_little_sense_is_warned_of(rag: dict[str, Any], provider: str, said: str) -> None:
    finding = judge_rag(settings(rag, provider))
    assert (finding.status, said in finding.detail) == ("warn", True)


def test_several_doubts_are_all_reported() -> None:
    assert judge_rag(settings({"collections": [], "budget_tokens": 1})).detail.count("; ") == 1


@pytest.mark.parametrize("state", [None, *get_args(CalibrationState)])
def test_a_model_whose_similarities_tell_nothing_is_warned_of(state: CalibrationState | None) -> None:
    expected = {None: "skip", "unusable": "warn"}.get(state, "pass")
    assert judge_calibration(state).status == expected
