from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from agentctx.config.embedding import RerankSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import run_checks
from agentctx.doctor.contexts import Embedding
from agentctx.doctor.rag import judge_calibration, judge_rag
from agentctx.wire import CalibrationState, CheckResult
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.serving import running
from tests.doctor.contexts import inner


def settings(rag: dict[str, Any], provider: str = "fake") -> Settings:
    return Settings.model_validate({"embedding": {"provider": provider, "rag": rag}})


def test_the_defaults_make_sense() -> None:
    assert judge_rag(Settings()).status == "pass"


def test_disabled_injection_is_not_a_fault() -> None:
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
def test_questionable_settings_are_a_warning(rag: dict[str, Any], provider: str, said: str) -> None:
    finding = judge_rag(settings(rag, provider))
    assert (finding.status, said in finding.detail) == ("warn", True)


def test_several_doubts_are_all_reported() -> None:
    assert judge_rag(settings({"collections": [], "budget_tokens": 1})).detail.count("; ") == 1


@pytest.mark.parametrize("state", [None, *get_args(CalibrationState)])
def test_a_model_whose_similarities_tell_nothing_is_warned_of(state: CalibrationState | None) -> None:
    expected = {None: "skip", "unusable": "warn"}.get(state, "pass")
    assert judge_calibration(state).status == expected


async def found(*, offline: bool = False, **section: Any) -> CheckResult:
    settings = Settings(rerank=RerankSettings.model_validate(section))
    embedding = Embedding(settings=settings.embedding, provider=None, offline=offline)
    context = inner(settings=settings, embedding=embedding)
    (result,) = await run_checks(["rerank.answers"], context)
    return result


async def test_without_a_reranker_there_is_nothing_to_examine() -> None:
    assert (await found()).status == "skip"


async def test_a_reranker_that_answers_passes() -> None:
    async with running() as server:
        result = await found(provider="cohere", api_key="key", base_url=server.base_url("cohere"))
    assert (result.status, result.id) == ("pass", "rerank.answers")
    assert "2 passages" in result.message


async def test_a_refused_key_fails_and_is_not_shown() -> None:
    async with running(faults=[HttpFault.with_status(401)]) as server:
        result = await found(provider="cohere", api_key="sk-canary", base_url=server.base_url("cohere"))
    assert result.status == "fail"
    assert "401" in result.message
    assert "sk-canary" not in repr(result)


async def test_offline_calls_no_provider() -> None:
    async with running() as server:
        result = await found(
            provider="cohere", api_key="key", base_url=server.base_url("cohere"), offline=True
        )
        assert server.requests == []
    assert result.status == "skip"


@pytest.mark.parametrize("section", [{"provider": "nobody"}, {"provider": "cross-encoder"}])
async def test_settings_that_make_no_reranker_fail(section: dict[str, Any]) -> None:
    result = await found(**section)
    assert result.status == "fail"
    assert result.hint


async def test_a_missing_model_fails(tmp_path: Path) -> None:
    assert (await found(provider="cross-encoder", model=str(tmp_path / "none"))).status == "fail"
