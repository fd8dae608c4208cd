"""The watchdog is notified unless a restart would help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.daemon.build import Core
from agentctx.daemon.health import CHECKS, Health, HealthVerdict
from agentctx.daemon.host.systemd import LivenessProbe, Systemd, keep_alive
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import StorageClosed
from agentctx.service.telemetry.loop_lag import STALLED_READINGS, STALLED_S, LoopLag
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from tests.doctor import damage
from tests.doctor.damage import damaged
from tests.running_core import embedded, running_core, save


def trouble_after(*looks: str) -> str:
    verdict = HealthVerdict()
    for look in looks:
        verdict.record(look)
    return verdict.trouble


def test_a_lasting_fault_that_began_while_running_is_trouble() -> None:
    assert trouble_after("", *["broken"] * CHECKS) == "broken"
    assert trouble_after("", *["broken"] * (CHECKS - 1)) == ""
    assert trouble_after("", *["broken"] * CHECKS, "") == ""


def test_a_fault_from_the_start_is_not_trouble() -> None:
    assert trouble_after(*["broken"] * 10 * CHECKS) == ""


@given(st.lists(st.sampled_from(["", "a", "b"])))
def test_a_healthy_check_ends_trouble(looks: list[str]) -> None:
    assert trouble_after(*looks, "") == ""


def health_of(core: Core) -> Health:
    return Health(core.storage, core.lanes, core.recorder.loop_lag)


async def trouble_after_checks(health: Health, times: int) -> str:
    for _ in range(times):
        await health.check()
    return health.trouble()


@pytest.mark.parametrize(
    ("how", "reason"),
    [(damage.lose_a_vector, "the invariant is broken"), (damage.change_the_fingerprint, "another model")],
)
async def test_an_invariant_broken_while_running_is_trouble_until_a_restart(
    tmp_path: Path, how: Callable[[Connection], object], reason: str
) -> None:
    async with running_core(tmp_path, FakeProvider()) as core:
        await save(core, key="k", content="red apple")
        await embedded(core)
        health = health_of(core)
        assert await trouble_after_checks(health, CHECKS) == ""
        damaged(tmp_path / DATABASE_NAME, how)
        assert await trouble_after_checks(health, CHECKS - 1) == ""
        assert reason in await trouble_after_checks(health, 1)
    async with running_core(tmp_path, FakeProvider()) as core:
        await embedded(core)
        assert await trouble_after_checks(health_of(core), 2 * CHECKS) == "", "the restart has helped"


async def test_the_watchdog_is_notified_except_while_the_invariant_is_broken(
    tmp_path: Path,
) -> None:
    events: list[str] = []

    class RecordingSystemd(Systemd):
        def alive(self) -> None:
            events.append("alive")

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
            if step == "broken" and "broken" not in events:
                damaged(tmp_path / DATABASE_NAME, damage.lose_a_vector)
            elif step == "mended" and "mended" not in events:
                assert await core.storage.upkeep.create_missing_jobs() == 1
            elif step is None:
                raise asyncio.CancelledError
            events.append(step)

        with pytest.raises(asyncio.CancelledError):
            await keep_alive(RecordingSystemd(watchdog_s=30.0), database, trouble=health.trouble, sleep=sleep)
    broken = events[events.index("broken") : events.index("mended")]
    assert broken.count("alive") == CHECKS
    assert broken[-CHECKS:] == ["broken"] * CHECKS
    assert events[-1] == "alive"


async def test_a_failing_database_is_not_trouble(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        health = health_of(core)
        assert await trouble_after_checks(health, 1) == ""
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
