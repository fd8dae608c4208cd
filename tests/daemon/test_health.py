"""The watchdog is told as long as a restart would not help, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.daemon.build import Core
from agentctx.daemon.health import CHECKS, Health, HealthVerdict
from agentctx.embedding_providers.fake import FakeProvider
from agentctx.errors import StorageClosed
from agentctx.host.systemd import LivenessProbe, Systemd, keep_alive
from agentctx.sqlite.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.telemetry.loop_lag import STALLED_READINGS, STALLED_S, LoopLag
from tests.doctor import damage
from tests.doctor.damage import damaged
from tests.running_core import embedded, running_core, save


def after(*looks: str) -> str:
    verdict = HealthVerdict()
    for look in looks:
        verdict.record(look)
    return verdict.trouble


def test_what_broke_and_stays_so_is_trouble() -> None:
    assert after("", *["broken"] * CHECKS) == "broken"
    assert after("", *["broken"] * (CHECKS - 1)) == ""
    assert after("", *["broken"] * CHECKS, "") == ""


def test_what_was_broken_from_the_start_is_none() -> None:
    assert after(*["broken"] * 10 * CHECKS) == ""


@given(st.lists(st.sampled_from(["", "a", "b"])))
def test_there_is_never_trouble_right_after_a_sound_look(looks: list[str]) -> None:
    assert after(*looks, "") == ""


def health_of(core: Core) -> Health:
    return Health(core.storage, core.lanes, core.prover.loop_lag)


async def looked(health: Health, times: int) -> str:
    for _ in range(times):
        await health.check()
    return health.trouble()


@pytest.mark.parametrize(
    ("how", "said"),
    [(damage.lose_a_vector, "the invariant is broken"), (damage.change_the_fingerprint, "another model")],
)
async def test_an_invariant_that_breaks_while_it_runs_is_trouble_until_it_is_whole(
    tmp_path: Path, how: Callable[[Connection], object], said: str
) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
        health = health_of(core)
        assert await looked(health, CHECKS) == ""
        damaged(tmp_path / DATABASE_NAME, how)
        assert await looked(health, CHECKS - 1) == ""
        assert said in await looked(health, 1)
    async with running_core(tmp_path, FakeProvider()) as core:
        await embedded(core)
        assert await looked(health_of(core), 2 * CHECKS) == "", "a restart has helped"


async def test_the_watchdog_is_notified_until_the_invariant_breaks_and_when_it_is_repaired(
    tmp_path: Path,
) -> None:
    told: list[str] = []

    class Told(Systemd):
        def alive(self) -> None:
            told.append("alive")

    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
        health = health_of(core)
        database = LivenessProbe(health.check, 60.0)
        steps = iter(["alive"] * 3 + ["broken"] * 2 * CHECKS + ["mended"] * 2)

        async def sleep(_: float) -> None:
            assert database._open is not None
            await asyncio.wait([database._open])
            step = next(steps, None)
            if step == "broken" and "broken" not in told:
                damaged(tmp_path / DATABASE_NAME, damage.lose_a_vector)
            elif step == "mended" and "mended" not in told:
                assert await core.storage.upkeep.create_missing_jobs() == 1
            elif step is None:
                raise asyncio.CancelledError
            told.append(step)

        with pytest.raises(asyncio.CancelledError):
            await keep_alive(Told(watchdog_s=30.0), database, trouble=health.trouble, sleep=sleep)
    broken = told[told.index("broken") : told.index("mended")]
    assert broken.count("alive") == CHECKS
    assert broken[-CHECKS:] == ["broken"] * CHECKS
    assert told[-1] == "alive"


async def test_a_database_that_fails_is_an_answer(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        health = health_of(core)
        assert await looked(health, 1) == ""
        await core.storage.close()
        for _ in range(CHECKS):
            with pytest.raises(StorageClosed):
                await health.check()
        assert health.trouble() == ""


async def test_a_stalled_loop_is_trouble_until_it_catches_up(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        lag = LoopLag()
        health = Health(core.storage, None, lag)
        for _ in range(STALLED_READINGS):
            assert health.trouble() == ""
            lag.record(STALLED_S)
        assert health.trouble() == "the event loop is stalled"
        lag.record(0.01)
        assert health.trouble() == ""
