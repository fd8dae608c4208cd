from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentctx.daemon.host import memory_limits
from agentctx.daemon.host.memory_limits import MemoryLimits
from agentctx.doctor.check import run_checks
from agentctx.doctor.running import judge_loop
from agentctx.errors import StorageFailed
from agentctx.service.telemetry.loop_lag import LoopLag
from agentctx.wire import CheckResult
from tests.doctor.contexts import inner


async def examined(check: str, **state: Any) -> CheckResult:
    daemon = SimpleNamespace(
        expect_memory=state.get("expect_memory", lambda: None),
        recorder=SimpleNamespace(loop_lag=lag(0.001), captures_refused=state.get("captures_refused", 0)),
        storage=SimpleNamespace(fault=state.get("write_fault")),
    )
    (result,) = await run_checks([check], inner(daemon=daemon))
    return result


def lag(*readings: float) -> LoopLag:
    measured = LoopLag()
    for reading in readings:
        measured.record(reading)
    return measured


@pytest.mark.parametrize(
    ("readings", "status"),
    [
        ((), "pass"),
        ((0.001,) * 300, "pass"),
        ((0.001,) * 297 + (0.2,) * 3, "pass"),
        ((0.001,) * 296 + (0.2,) * 4, "warn"),
        ((0.001,) * 299 + (1.5,), "warn"),
        ((0.2, 0.2), "warn"),
    ],
)
def test_a_loop_that_is_late_again_and_again_or_for_a_second_is_reported(
    readings: tuple[float, ...], status: str
) -> None:
    assert judge_loop(lag(*readings)).status == status


async def test_that_nothing_can_be_saved_is_reported_with_the_reason() -> None:
    fault = StorageFailed("The disk of the database still fails: EIO", hint="Look at it.")
    found = await examined("running.writes", write_fault=fault)
    assert (found.status, found.hint) == ("fail", "Look at it.")
    assert "still fails: EIO" in found.message
    assert (await examined("running.writes")).status == "pass"


async def test_without_a_daemon_they_are_skipped() -> None:
    checks = ("running.memory", "running.loop", "running.writes", "running.captures")
    assert [each.status for each in await run_checks(checks, inner())] == ["skip"] * 4
    assert [(await examined(check)).status for check in checks] == ["pass"] * 4


async def test_refused_saves_of_hooks_are_counted() -> None:
    assert (await examined("running.captures")).status == "pass"
    found = await examined("running.captures", captures_refused=3)
    assert (found.status, found.message[:8]) == ("warn", "3 saves ")


async def test_limits_of_memory_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(limits: MemoryLimits) -> tuple[str, str]:
        monkeypatch.setattr(memory_limits, "memory_limits", lambda: limits)
        result = await examined("running.memory", expect_memory=memory_limits.expect_memory)
        return result.status, result.message

    assert (await found(MemoryLimits()))[0] == "pass"
    assert await found(MemoryLimits(memory=200_000_000)) == ("warn", "the memory is limited to 200 MB")
    status, message = await found(MemoryLimits(address_space=1))
    assert (status, message[-1]) == ("warn", "B")
