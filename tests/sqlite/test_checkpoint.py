from __future__ import annotations

from agentctx.sqlite.checkpoint import DUE_FRAMES, CheckpointSchedule, WalState


def test_pages_are_moved_once_there_are_enough() -> None:
    schedule = CheckpointSchedule()
    assert not schedule.is_due(WalState(DUE_FRAMES - 1, 0))
    assert schedule.is_due(WalState(DUE_FRAMES, 0))


def test_what_a_reader_holds_back_is_tried_again_when_as_much_has_come() -> None:
    schedule = CheckpointSchedule()
    assert schedule.is_due(WalState(DUE_FRAMES, 0))
    assert not any(schedule.is_due(WalState(DUE_FRAMES + more, 400)) for more in range(1, DUE_FRAMES))
    assert schedule.is_due(WalState(2 * DUE_FRAMES, 400))


def test_a_wal_that_began_anew_is_counted_anew() -> None:
    schedule = CheckpointSchedule()
    assert schedule.is_due(WalState(9 * DUE_FRAMES, 0))
    assert not schedule.is_due(WalState(20, 0))
    assert schedule.is_due(WalState(DUE_FRAMES + 20, 20))


def test_there_is_nothing_to_do_when_all_is_moved() -> None:
    assert not CheckpointSchedule().is_due(WalState(DUE_FRAMES, DUE_FRAMES))
