from __future__ import annotations

import pytest

from agentctx.doctor.runner import run_checks
from agentctx.doctor.running import Running, judge_loop, judge_writes, running_checks
from agentctx.errors import StorageFailed
from agentctx.telemetry.loop_lag import LoopLag


def lag(*readings: float) -> LoopLag:
    measured = LoopLag()
    for reading in readings:
        measured.note(reading)
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


def test_that_nothing_can_be_saved_is_reported_with_the_reason() -> None:
    finding = judge_writes(StorageFailed("The disk of the database still fails: EIO", hint="Look at it."))
    assert (finding.status, finding.hint) == ("fail", "Look at it.")
    assert "still fails: EIO" in finding.message
    assert judge_writes(None).status == "pass"


async def test_without_a_daemon_they_are_skipped() -> None:
    assert [each.status for each in await run_checks(running_checks(None))] == ["skip", "skip"]
    found = await run_checks(running_checks(Running(loop_lag=lag(0.001))))
    assert [each.status for each in found] == ["pass", "pass"]
