from __future__ import annotations

from agentctx.sqlite.checkpoint import DUE_FRAMES, MANY_FRAMES, CheckpointSchedule, WalState


def test_pages_are_moved_once_there_are_enough() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(DUE_FRAMES - 1, 0)) is None
    assert schedule.due(WalState(DUE_FRAMES, 0)) == "PASSIVE"


def test_what_a_reader_holds_back_is_tried_again_when_as_much_has_come() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(DUE_FRAMES, 0))
    assert not any(schedule.due(WalState(DUE_FRAMES + more, 400)) for more in range(1, DUE_FRAMES))
    assert schedule.due(WalState(2 * DUE_FRAMES, 400))


def test_a_wal_that_restarted_is_counted_again() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(9 * DUE_FRAMES, 0))
    assert not schedule.due(WalState(20, 0))
    assert schedule.due(WalState(DUE_FRAMES + 20, 20)) == "PASSIVE"


def test_there_is_nothing_to_do_when_all_is_moved() -> None:
    assert CheckpointSchedule().due(WalState(DUE_FRAMES, DUE_FRAMES)) is None


def test_a_long_wal_starts_over_also_when_all_is_moved() -> None:
    schedule = CheckpointSchedule()
    assert schedule.due(WalState(MANY_FRAMES, MANY_FRAMES)) == "RESTART"
    assert schedule.due(WalState(MANY_FRAMES + 1, 0)) is None, "readers are not waited for at every commit"
