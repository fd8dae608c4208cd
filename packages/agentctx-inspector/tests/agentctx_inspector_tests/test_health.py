"""The page of the daemon's health, and its stream of figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.config.access import AccessSettings
from agentctx.service.base import Peer
from agentctx_inspector_tests.running_pages import RunningPages, running_pages
from tests.running_core import ME, save

ANN = Peer(pid=1, uid=54_321, gid=54_321)
READER = AccessSettings.model_validate(
    {"grants": [{"uid": ANN.uid, "namespaces": ["default"], "rights": "read"}]}
)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[RunningPages]:
    async with running_pages(tmp_path) as running:
        yield running


async def first_figures(pages: RunningPages) -> dict[str, object]:
    async with asyncio.timeout(10), pages.http.stream("GET", "/live") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            return dict(json.loads(line.removeprefix("data: ")))
    raise AssertionError("no event")


async def test_it_shows_what_the_daemon_does(pages: RunningPages) -> None:
    await save(pages.core, key="rule", content="Deploy on Fridays.")
    page = await pages.page("/health")
    assert "1 knowledge" in page
    assert "The doctor has not examined the daemon since its start" in page


async def test_the_doctors_last_result_has_its_age_and_repairs(pages: RunningPages) -> None:
    reply = await pages.send("/health/examine")
    page = await pages.page(reply.headers["location"])
    assert "The doctor has examined the daemon." in page
    assert ">just now</time>: " in page
    assert " passed" in page
    assert (await pages.send("/health/repair")).headers["location"] == "/health?done=fixed"


async def test_an_examination_from_elsewhere_is_shown_too(pages: RunningPages) -> None:
    await pages.core.examiner.doctor(ME, only=["queue"])
    assert ">just now</time>: " in await pages.page("/health")


async def test_buried_jobs_are_tried_again(pages: RunningPages) -> None:
    reply = await pages.send("/health/retry")
    assert "back in the queue" in await pages.page(reply.headers["location"])


async def test_figures_move(pages: RunningPages) -> None:
    before = await first_figures(pages)
    await save(pages.core, key="rule", content="Deploy on Fridays.")
    after = await first_figures(pages)
    assert (before["saved"], after["saved"]) == (0, 1)


async def test_only_admins_see_the_daemons_figures(tmp_path: Path) -> None:
    async with running_pages(tmp_path, access=READER, owners=frozenset(), peer=ANN) as pages:
        refused = await pages.page("/health")
        assert "only admins" in refused
        assert "Queue" not in refused
        assert await first_figures(pages) == {"memories": 0}
        assert (await pages.send("/health/repair")).status_code == 403
