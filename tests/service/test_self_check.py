"""The background task proves what was stored, and the metrics show its findings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.daemon.build import Core
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.service.self_check import (
    FIRST_PROOF_S,
    LONGEST_REST_S,
    PROOF_EVERY_S,
    rest_s,
)
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from tests.doctor import damage
from tests.doctor.damage import damaged
from tests.running_core import embedded, running_core, save
from tests.service.telemetry.scraped import Scraped, scraped

NAMES = (
    "agentctx_invariant_violations",
    "agentctx_fingerprint_mismatches",
    'agentctx_canaries_lost{by="words"}',
    'agentctx_canaries_lost{by="vectors"}',
)


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path, FakeProvider(), vectors={"memory_mb": 0}) as running:
        for number, text in enumerate(("red apple", "green pear", "blue plum")):
            await save(running, key=f"k{number}", content=text)
        await embedded(running)
        yield running


async def scrape(core: Core) -> Scraped:
    return scraped(await core.metrics.metrics())


class Naps:
    """A sleep that returns immediately and cancels the task at the last nap."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seen.append(seconds)
        if len(self.seen) == self.count:
            raise asyncio.CancelledError


async def test_a_healthy_daemon_publishes_a_proof_without_violations(core: Core) -> None:
    assert "agentctx_proof_timestamp_seconds" not in await scrape(core)
    naps = Naps(2)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await core.self_check.keep_proving(naps, elapsed=lambda: 0.0)
    assert naps.seen == [FIRST_PROOF_S, PROOF_EVERY_S]
    assert logs == []
    found = await scrape(core)
    assert [found[name] for name in NAMES] == [0, 0, 0, 0]
    assert found['agentctx_canaries{by="words"}'] == found['agentctx_canaries{by="vectors"}'] == 3
    assert found["agentctx_proof_timestamp_seconds"] > 1_700_000_000


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (damage.lose_a_vector, (1, 0, 0, 0)),
        (damage.change_the_fingerprint, (0, 1, 0, 0)),
        (damage.leave_vectors_of_a_retired_model, (0, 1, 0, 0)),
        (damage.lose_words, (3, 0, 3, 0)),
        (damage.hide_vectors, (0, 0, 0, 3)),
    ],
)
async def test_violations_are_counted_and_logged(
    core: Core, tmp_path: Path, how: Callable[[Connection], object], found: tuple[int, ...]
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await core.self_check.keep_proving(Naps(4))
    page = await scrape(core)
    assert tuple(page[name] for name in NAMES) == found
    (logged,) = [line for line in logs if line["event"] == "proof_failed"]
    assert (
        logged["violations"],
        logged["mismatches"],
        logged["lost_by_words"],
        logged["lost_by_vectors"],
    ) == found


async def test_violations_are_logged_again_when_there_are_more(core: Core, tmp_path: Path) -> None:
    damaged(tmp_path / DATABASE_NAME, damage.lose_a_vector)

    async def damage_more(seconds: float) -> None:
        await naps(seconds)
        if len(naps.seen) == 3:
            damaged(tmp_path / DATABASE_NAME, damage.change_the_fingerprint)

    naps = Naps(5)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await core.self_check.keep_proving(damage_more)
    assert [(line["violations"], line["mismatches"]) for line in logs] == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("took_s", "rest"), [(0.0, PROOF_EVERY_S), (0.03, PROOF_EVERY_S), (0.3, 300.0), (60.0, LONGEST_REST_S)]
)
def test_slow_proofs_run_less_often(took_s: float, rest: float) -> None:
    assert rest_s(took_s) == rest


def test_violations_are_found_within_a_minute() -> None:
    assert PROOF_EVERY_S < 60
    assert FIRST_PROOF_S < 60


async def test_a_proof_of_an_unreadable_database_is_retried(core: Core) -> None:
    await core.storage.close()
    naps = Naps(3)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await core.self_check.keep_proving(naps)
    assert [line["event"] for line in logs] == ["proof_not_made"] * 2
    assert core.self_check.latest_proof is None
