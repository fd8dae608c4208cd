from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentctx.config.embedding import RerankSettings
from agentctx.doctor.rerank import rerank_check
from agentctx.doctor.runner import run_checks
from agentctx.fake_provider.faults import HttpFault
from agentctx.fake_provider.serving import running
from agentctx.wire import CheckResult


async def found(*, offline: bool = False, **section: Any) -> CheckResult:
    (result,) = await run_checks([rerank_check(RerankSettings.model_validate(section), offline=offline)])
    return result


async def test_without_a_reranker_there_is_nothing_to_examine() -> None:
    assert (await found()).status == "skip"


async def test_a_reranker_that_answers_passes() -> None:
    async with running() as server:
        result = await found(provider="cohere", api_key="key", base_url=server.base_url("cohere"))
    assert (result.status, result.id) == ("pass", "rerank.answers")
    assert "2 passages" in result.message


async def test_a_refused_key_fails_and_is_not_shown() -> None:
    async with running(faults=[HttpFault.refuses(401)]) as server:
        result = await found(provider="cohere", api_key="sk-canary", base_url=server.base_url("cohere"))
    assert result.status == "fail"
    assert "401" in result.message
    assert "sk-canary" not in repr(result)


async def test_offline_asks_nobody() -> None:
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
