"""The spend cap per day in a whole daemon, against the fake server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.wire import ProviderCost, SearchRequest
from agentctx_testing.drafts import ManualClock
from agentctx_testing.fake_provider.serving import FakeProviderServer, running
from tests.running_core import ME, embedded, running_core, save
from tests.service.telemetry.scraped import scraped

DAY_MS = 86_400_000
LONG = "The falcon nests on the tower of the old town hall. " * 10
CAP_USD = 200.0
"""Enough for the long text alone, but not with the canary and a short text before it."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server() -> AsyncIterator[FakeProviderServer]:
    async with running(dimension=8) as fake:
        yield fake


def settings(server: FakeProviderServer, usd_per_day: float) -> Settings:
    """Return settings with a price of one dollar per token."""
    limits = {"usd_per_million_tokens": 1_000_000.0, "usd_per_day": usd_per_day}
    return Settings.model_validate(
        {
            "embedding": {
                "provider": "openai",
                "base_url": server.base_url("openai"),
                "api_key": "any",
                "limits": limits,
            }
        }
    )


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)


async def cost_of(core: Core) -> ProviderCost:
    cost = (await core.status.status(ME)).provider.cost
    assert cost is not None
    return cost


def degradation_of(core: Core) -> str:
    assert core.lanes is not None
    return core.lanes.leading.builder.reason or ""


async def wait_until_paused(core: Core) -> None:
    await wait_until(lambda: degradation_of(core).startswith("spend_cap_reached: "))


async def test_a_reached_cap_pauses_embedding_and_is_reported_everywhere(
    server: FakeProviderServer, tmp_path: Path, clock: ManualClock
) -> None:
    async with running_core(tmp_path, None, settings=settings(server, CAP_USD), clock=clock) as core:
        await save(core, key="short", content="red apple")
        await embedded(core)
        await save(core, key="long", content=LONG)
        await wait_until_paused(core)
        asked = len(server.requests)

        answer = await core.questions.search(SearchRequest(query="falcon"), ME)
        assert "falcon" in answer.results[0].content
        assert (answer.degraded or "").startswith("spend_cap_reached: ")
        assert len(server.requests) == asked

        status = await core.status.status(ME)
        assert status.provider.state == "degraded"
        assert status.provider.cost is not None
        assert status.provider.cost.cap_reached
        assert (status.queue.pending, status.queue.buried) == (1, 0)
        assert core.status.degraded()["embeddings"].startswith("spend_cap_reached: ")
        shown = scraped(await core.metrics.metrics())
        assert 0 < shown["agentctx_provider_usd_today"] <= shown["agentctx_provider_usd_cap"] == CAP_USD
        assert shown["agentctx_provider_tokens_total"] == status.provider.cost.tokens_today
        assert shown['agentctx_degraded_answers_total{reason="spend_cap_reached"}'] == 1
        report = await core.examiner.doctor(ME, only=["embedding.spending"])
        assert [check.status for check in report.checks] == ["warn"]

        clock.now += DAY_MS
        assert core.lanes is not None
        core.lanes.leading.queue.recheck_table()
        await embedded(core)
        assert (await core.storage.upkeep.census()).violations == 0
        assert not (await cost_of(core)).cap_reached


async def test_a_restart_does_not_reset_the_day_and_a_higher_cap_resumes_embedding(
    server: FakeProviderServer, tmp_path: Path, clock: ManualClock
) -> None:
    async with running_core(tmp_path, None, settings=settings(server, CAP_USD), clock=clock) as core:
        await save(core, key="short", content="red apple")
        await embedded(core)
        await save(core, key="long", content=LONG)
        await wait_until_paused(core)
        spent = (await cost_of(core)).usd_today
        assert spent > 0
    async with running_core(tmp_path, None, settings=settings(server, spent), clock=clock) as core:
        await wait_until_paused(core)
        assert (await cost_of(core)).usd_today == spent
    async with running_core(tmp_path, None, settings=settings(server, 5_000.0), clock=clock) as core:
        await embedded(core)
        assert (await cost_of(core)).usd_today > spent
