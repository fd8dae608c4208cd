from __future__ import annotations

from agentctx.server.fault_log import INTERVAL_S, FaultLog


def test_the_first_of_a_kind_and_one_a_minute_are_due_with_the_number_of_the_others() -> None:
    now = [100.0]
    log = FaultLog(lambda: now[0])
    assert log.due("a") == 0
    assert [log.due("a") for _ in range(3)] == [None] * 3
    assert log.due("b") == 0
    now[0] += INTERVAL_S
    assert log.due("a") == 3
    assert log.due("a") is None
    now[0] += 10 * INTERVAL_S
    assert [log.due("a"), log.due("b")] == [1, 0]
